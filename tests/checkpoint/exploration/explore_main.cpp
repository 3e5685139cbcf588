// explore_generations SAVES... [OPTIONS]: explores writers and faults that are too many for every run of the tests.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <vector>

#include "common/logging.hpp"
#include "tests/checkpoint/exploration/explorer.hpp"

int main(int argc, char** argv) {
  namespace exploration = trainyard::checkpoint::exploration;
  std::vector<int> saves;
  bool is_unconditional = false;
  exploration::Scenario scenario;
  scenario.crashes_max = 0;
  CLI::App app{"Visits every state of the writers of one prefix, and checks the guarantees of checkpoints in each"};
  app.add_option("saves", saves, "How often each writer saves: one number for each writer")->required();
  app.add_option("--crashes", scenario.crashes_max, "How many writers die");
  app.add_option("--lost-replies", scenario.lost_replies_max, "How many replies are lost");
  app.add_option("--late-changes", scenario.late_changes_max, "How many puts happen later than their writer believes");
  app.add_option("--stale-lists", scenario.stale_lists_max, "How many lists lag behind");
  app.add_option("--changes-of-turns", scenario.preemptions_max,
                 "At most so many changes of turns; any number if left out");
  app.add_option("--states", scenario.states_max, "Give up beyond so many states")->capture_default_str();
  app.add_flag("--without-conditional-create", is_unconditional, "The store has no conditional create");
  CLI11_PARSE(app, argc, argv);
  for (const int count : saves) {
    const auto attempt = static_cast<std::int64_t>(scenario.writers.size()) + 1;
    scenario.writers.push_back({exploration::identity_of_attempt(attempt), count, !is_unconditional});
  }
  trainyard::logging::set_up(trainyard::logging::Format::text, trainyard::logging::Level::error);
  const exploration::Findings found = exploration::explore(scenario);
  std::printf("%llu states, %llu transitions, up to %zu calls and faults\n%s",
              static_cast<unsigned long long>(found.states), static_cast<unsigned long long>(found.transitions),
              found.depth_max, found.violation.c_str());
  return found.violation.empty() ? 0 : 1;
}
