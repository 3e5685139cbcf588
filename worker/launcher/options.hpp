#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "worker/launcher/checkpoint_endpoint.hpp"
#include "worker/launcher/peer_group.hpp"
#include "worker/launcher/supervisor.hpp"
#include "worker/rank/environment.hpp"
#include "worker/rank/group_environment.hpp"

namespace trainyard::launcher {

/// The launcher's settings, from its command line and its environment.
struct Options {
  rank::GroupEnvironment group;
  PeerSettings peers;
  SupervisorSettings ranks;
  CheckpointEndpointSettings checkpoint_requests;
  std::string rank_program;
  std::vector<std::string> rank_arguments;
  std::string rendezvous_store_program;  ///< trainyard-store, which hosts torch's rendezvous store.
  std::string folder;                    ///< The folder of the launcher's own program.
  bool asks_for_help = false;
};

[[nodiscard]] std::string usage();

/// `arguments`: without the program's name; `folder`: of the launcher's own program, where the rank program and
/// trainyard-store are looked for. ErrorKind::invalid with one sentence.
[[nodiscard]] Result<Options> parse_options(const std::vector<std::string>& arguments,
                                            const rank::Environment& environment, const std::string& folder);

/// The ranks' time from SIGTERM to SIGKILL: the pod's grace period less the time that the launcher itself needs to end.
[[nodiscard]] std::chrono::milliseconds stop_deadline(std::chrono::seconds grace);

}  // namespace trainyard::launcher
