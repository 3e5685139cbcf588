#pragma once

#include <exception>
#include <string>

#include "worker/rank/rank_link.hpp"

namespace trainyard::train {

/// The end of a rank whose training threw `thrown`, of whatever type: exit_do_not_restart for an InvalidJob,
/// exit_device where its GPU or driver has failed, exit_peer_lost where the connection to another rank was lost, and
/// exit_failure otherwise. `device` names the rank's device and node in the message. The caller checks
/// RankLink::group_failure first, which takes precedence.
[[nodiscard]] rank::RankEnd end_of_exception(const std::exception_ptr& thrown, const std::string& device);

}  // namespace trainyard::train
