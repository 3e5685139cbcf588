#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "common/result.hpp"

namespace trainyard::manager {

/// Token and body of a POST to a rank.
struct RankPost {
  std::string token;  ///< Sent as `Authorization: Bearer`.
  std::string body;   ///< JSON.
};

struct RankReply {
  int status = 0;
  std::string body;
  bool operator==(const RankReply&) const = default;
};

/// Sends one request to a rank over plain HTTP: a POST, or a GET if `post` is empty. Returns by `deadline`, whatever
/// the rank does. ErrorKind::unavailable: no connection, or it broke; timeout; corrupt: an answer longer than 64 KiB.
/// Any thread may call.
[[nodiscard]] Result<RankReply> exchange_with_rank(const std::string& url, const std::optional<RankPost>& post,
                                                   std::chrono::milliseconds deadline);

}  // namespace trainyard::manager
