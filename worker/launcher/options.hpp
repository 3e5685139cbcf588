#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "worker/launcher/checkpoint_desk.hpp"
#include "worker/launcher/peer_settings.hpp"
#include "worker/launcher/supervisor.hpp"
#include "worker/rank/environment.hpp"
#include "worker/rank/group_environment.hpp"

namespace trainyard::launcher {

/// All that a launcher needs to know, from its command line and its environment.
struct Options {
  rank::GroupEnvironment group;
  PeerSettings peers;
  SupervisorSettings ranks;
  CheckpointDeskSettings checkpoint_requests;
  std::string rank_program;
  std::vector<std::string> rank_arguments;
  std::string store_program;
  std::string folder;  ///< Where the launcher's program lies.
  bool asks_for_help = false;
};

[[nodiscard]] std::string usage();

/// `arguments` without the program's name; `folder`: where the program itself lies, and its siblings.
/// ErrorKind::invalid with one sentence for anything wrong.
[[nodiscard]] Result<Options> parse_options(const std::vector<std::string>& arguments,
                                            const rank::Environment& environment, const std::string& folder);

/// How long ranks get from SIGTERM to SIGKILL: the pod's grace period less what the launcher itself needs to end.
[[nodiscard]] std::chrono::milliseconds stop_deadline(std::chrono::seconds grace);

}  // namespace trainyard::launcher
