#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "operator/plan/progress_report.hpp"

namespace trainyard::simulation {

/// A container that is not Trainyard's worker, and gives answers and termination messages of its own.
class Liar {
 public:
  explicit Liar(std::uint64_t seed) : random_{seed} {}

  /// An answer of rank 0 in `attempt`, or in the next.
  [[nodiscard]] plan::ProgressReport report(std::int64_t attempt, Time now);
  [[nodiscard]] std::string termination_message();

 private:
  nlohmann::json lie();
  std::string text() { return std::string(random_() % 50'000, 'x'); }
  nlohmann::json number();

  std::mt19937_64 random_;
};

}  // namespace trainyard::simulation
