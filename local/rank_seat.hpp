#pragma once

#include <map>
#include <string>

namespace trainyard::local {

/// The machine on which a rank of `trainyard run` runs.
struct RankSeat {
  std::string host;                              ///< As the user named it, perhaps with "user@" before it.
  std::string address = "127.0.0.1";             ///< Name or address by which the other ranks reach this one.
  bool is_remote = false;                        ///< Reached by ssh.
  std::map<std::string, std::string> variables;  ///< They replace the pod's own (ContainerContext::overrides).
  bool operator==(const RankSeat&) const = default;
};

}  // namespace trainyard::local
