#include "tests/simulation/liar.hpp"

namespace trainyard::simulation {

using nlohmann::json;

json Liar::number() {
  switch (random_() % 5) {
    case 0:
      return INT64_MAX;
    case 1:
      return -1;
    case 2:
      return 1.7e308;
    case 3:
      return UINT64_MAX;
    default:
      return random_() % 100;
  }
}

json Liar::lie() {
  json lie{{"step", random_() % 100}, {"totalSteps", number()}, {"loss", number()}, {"samplesPerSecond", number()}};
  lie["checkpointError"] = text();
  lie["waitingFor"] = text();
  lie["etaSeconds"] = number();
  lie["checkpoint"] = {
      {"step", random_() % 100}, {"uri", text()}, {"time", "0000-01-01T00:00:00+23:59"}, {"bytes", number()}};
  lie["checkpointRequest"] = {{"id", random_() % 2 == 0 ? "lunch" : "suspend-2"},
                              {"state", random_() % 2 == 0 ? "Done" : "Failed"},
                              {"step", number()},
                              {"uri", text()},
                              {"message", text()}};
  return lie;
}

plan::ProgressReport Liar::report(std::int64_t attempt, Time now) {
  return plan::read_progress_report(lie(), attempt + (random_() % 4 == 0 ? 1 : 0), now);
}

std::string Liar::termination_message() {
  return json{{"exitCode", 1},
              {"reason", std::string(9'000, 'r')},
              {"message", std::string(9'000, 'm')},
              {"culprit", UINT64_MAX},
              {"progress", lie()}}
      .dump();
}

}  // namespace trainyard::simulation
