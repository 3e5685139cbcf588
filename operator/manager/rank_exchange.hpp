#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "common/result.hpp"

namespace trainyard::manager {

/// What a POST brings along. Without one it is a GET.
struct RankPost {
  std::string token;  ///< Goes as `Authorization: Bearer`.
  std::string body;   ///< JSON.
};

struct RankReply {
  int status = 0;
  std::string body;
  bool operator==(const RankReply&) const = default;
};

/// One request to a rank over plain HTTP, whatever the rank does over by `deadline`. ErrorKind::unavailable: no
/// connection; timeout; corrupt: an answer longer than 64 KiB. Any thread may call.
[[nodiscard]] Result<RankReply> exchange_with_rank(const std::string& url, const std::optional<RankPost>& post,
                                                   std::chrono::milliseconds deadline);

}  // namespace trainyard::manager
