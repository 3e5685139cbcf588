#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "worker/rank/rank_link.hpp"

namespace trainyard::launcher {

/// What broke the group: the first failure, told to every launcher in the same words.
struct GroupFailure {
  std::optional<std::int64_t> culprit;  ///< Its global rank, where one is known.
  int exit_code = 0;                    ///< How the culprit ended, or what everybody ends with where there is none.
  std::string reason;                   ///< One CamelCase word.
  std::string message;                  ///< A sentence that names the culprit.
  bool operator==(const GroupFailure&) const = default;
};

/// How a rank ends because of another one's failure: peer_lost; or as the failure says where nobody is its culprit
/// (rendezvous).
[[nodiscard]] rank::RankEnd end_of_others(const GroupFailure& failure);

}  // namespace trainyard::launcher
