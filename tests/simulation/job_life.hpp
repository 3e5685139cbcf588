#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "operator/plan/conditions.hpp"
#include "tests/simulation/simulation.hpp"

namespace trainyard::simulation {

using Names = std::vector<std::string>;

/// A world with one job in it.
class JobLife : public testing::Test {
 protected:
  void start(const builders::JobBuilder& job = builders::a_job()) {
    world.apply(job.manifest());
    ASSERT_TRUE(runs(1));
  }
  bool runs(std::int64_t attempt) {
    return world.run_until([&] { return world.is_phase(api::Phase::running) && world.status().attempt == attempt; });
  }
  bool reaches(api::Phase phase) {
    return world.run_until([&] { return world.is_phase(phase); });
  }
  bool has_condition(std::string_view type) { return plan::is_condition_true(world.status(), type); }
  Names pods(const std::vector<std::pair<std::string, std::string>>& places_and_phases) {
    Names names;
    for (const auto& [place, phase] : places_and_phases) {
      names.push_back(
          fmt::format("{}{} {}", world.pod_name(0, 0).substr(0, world.pod_name(0, 0).size() - 3), place, phase));
    }
    return names;
  }

  Simulation world;
};

}  // namespace trainyard::simulation
