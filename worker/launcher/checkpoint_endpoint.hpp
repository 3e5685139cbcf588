#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "worker/rank/checkpoint_request.hpp"

namespace trainyard::launcher {

struct CheckpointEndpointSettings {
  std::optional<std::string> token;  ///< TRAINYARD_REQUEST_TOKEN. Without a token every request is refused.
  bool is_rank0 = true;              ///< This launcher's first rank is rank 0.
  bool has_checkpoint_uri = false;   ///< The job saves checkpoints.
};

struct CheckpointAnswer {
  int http_status = 0;
  std::string body;  ///< A JSON object.
  bool operator==(const CheckpointAnswer&) const = default;
};

/// Takes requests for checkpoints, one at a time, for rank 0's launcher, and keeps the outcome of the last one. Pure.
class CheckpointEndpoint {
 public:
  explicit CheckpointEndpoint(CheckpointEndpointSettings settings) : settings_{std::move(settings)} {}

  /// Answers a POST /checkpoint as contract.hpp defines. `authorization`: the value of the Authorization header.
  [[nodiscard]] CheckpointAnswer post(std::string_view authorization, std::string_view body);
  /// A request that was accepted since the last call, to be sent to rank 0.
  [[nodiscard]] std::optional<rank::CheckpointRequest> take_request();
  /// Takes rank 0's report of the last request that it has answered.
  void on_report(const std::optional<rank::RequestRecord>& answered);
  /// Refuses all later requests, because rank 0 makes no further step.
  void close() { is_closed_ = true; }
  /// The last accepted request and its outcome.
  [[nodiscard]] const std::optional<rank::RequestRecord>& record() const { return record_; }

 private:
  CheckpointEndpointSettings settings_;
  std::optional<rank::RequestRecord> record_;
  std::optional<rank::CheckpointRequest> unsent_;
  bool is_closed_ = false;
};

}  // namespace trainyard::launcher
