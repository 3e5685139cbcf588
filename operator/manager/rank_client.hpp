#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "operator/plan/progress_report.hpp"
#include "operator/plan/request_status.hpp"

/// The operator's HTTP calls to rank 0 of a job. A user's program may answer them, so that no answer is trusted.
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

/// Sends one request to a rank: a POST, or a GET if `post` is empty. Returns by `deadline`. Any thread may call.
using CallRank = std::function<Result<RankReply>(const std::string& url, const std::optional<RankPost>& post,
                                                 std::chrono::milliseconds deadline)>;

/// The CallRank over plain HTTP. Returns by `deadline`, whatever the rank does. ErrorKind::unavailable: no connection,
/// or it broke; timeout; corrupt: an answer longer than 64 KiB. Any thread may call.
[[nodiscard]] Result<RankReply> call_rank(const std::string& url, const std::optional<RankPost>& post,
                                          std::chrono::milliseconds deadline);

/// Reads rank 0's answer to `GET /status` (api/contract.hpp), asked at `now`. ErrorKind::corrupt when it is not a JSON
/// object; conflict when another job or another attempt answered, as when its pod has taken over the address.
[[nodiscard]] Result<plan::ProgressReport> read_progress(std::string_view answer, std::string_view job_uid,
                                                         std::int64_t attempt, Time now);

/// Reads rank 0's reply to the request `id` (POST /checkpoint, api/contract.hpp): its record of the request, or a
/// failed one if it refused. Empty if the request is to be sent again.
[[nodiscard]] std::optional<api::CheckpointRequest> read_request_answer(const RankReply& reply, std::string_view id);

/// Calls rank 0 with one deadline for each call. Any thread may call.
class RankClient {
 public:
  RankClient(CallRank call, std::chrono::milliseconds deadline) : call_{std::move(call)}, deadline_{deadline} {}

  /// The progress that `GET url` answers. Errors are those of CallRank and of read_progress(). Another HTTP status than
  /// 200 is ErrorKind::unavailable too.
  [[nodiscard]] Result<plan::ProgressReport> progress(const std::string& url, const api::TrainingJob& job,
                                                      const Clock& clock) const;
  /// Sends `request` as a POST to `url`. Returns what read_request_answer() makes of the reply; empty also without a
  /// reply.
  [[nodiscard]] std::optional<api::CheckpointRequest> send_request(const std::string& url, const std::string& token,
                                                                   const plan::RequestToSend& request) const;

 private:
  CallRank call_;
  std::chrono::milliseconds deadline_;
};

}  // namespace trainyard::manager
