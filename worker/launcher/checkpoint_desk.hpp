#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "worker/rank/checkpoint_request.hpp"

namespace trainyard::launcher {

struct CheckpointDeskSettings {
  std::optional<std::string> token;  ///< TRAINYARD_REQUEST_TOKEN; nothing: nobody may ask.
  bool is_rank_zero = true;          ///< This launcher's first rank is rank 0.
  bool has_checkpoint_uri = false;   ///< The job saves checkpoints.
};

struct CheckpointAnswer {
  int http_status = 0;
  std::string body;  ///< A JSON object.
  bool operator==(const CheckpointAnswer&) const = default;
};

/// Where rank 0's launcher is asked for checkpoints, one at a time, and says what has come of the last one. Pure: it is
/// told what is asked and what the rank reports.
class CheckpointDesk {
 public:
  explicit CheckpointDesk(CheckpointDeskSettings settings) : settings_{std::move(settings)} {}

  /// Answers a POST /checkpoint as contract.hpp says. `authorization`: that header's value.
  [[nodiscard]] CheckpointAnswer post(std::string_view authorization, std::string_view body);
  /// The request that was taken last, once: rank 0 is to be told of it.
  [[nodiscard]] std::optional<rank::CheckpointRequest> take_request();
  /// What the rank reports of the last request that it has answered.
  void on_report(const std::optional<rank::CheckpointRecord>& answered);
  /// From now on nothing new is taken: the rank makes no step any more.
  void close() { is_closed_ = true; }
  /// What has come of the request that was taken last.
  [[nodiscard]] const std::optional<rank::CheckpointRecord>& record() const { return record_; }

 private:
  CheckpointDeskSettings settings_;
  std::optional<rank::CheckpointRecord> record_;
  std::optional<rank::CheckpointRequest> unsent_;
  bool is_closed_ = false;
};

}  // namespace trainyard::launcher
