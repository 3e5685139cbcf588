#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/plan/member.hpp"
#include "operator/plan/observed.hpp"

namespace trainyard::plan {

/// Annotation of a TrainingJob that requests a checkpoint. Its value is an id of the user's choice.
inline constexpr std::string_view checkpoint_request_annotation = "trainyard.dev/checkpoint-request";

struct RequestToSend {
  std::string id;
  bool is_last = false;  ///< The ranks end once it is saved.
  bool operator==(const RequestToSend&) const = default;
};

/// The request that the status wants sent to rank 0; empty if there is none. It may be sent repeatedly.
[[nodiscard]] std::optional<RequestToSend> request_to_send(const api::TrainingJobStatus& status);

/// Updates `status.checkpoint_request` from the annotation and rank 0's reports, and `status.suspend_request` from the
/// reports. An answered id is never sent again. A new id waits until rank 0 has answered the id before.
void take_checkpoint_requests(api::TrainingJobStatus& status, const Observed& observed,
                              const std::vector<Member>& members, Time now);

/// The id of the operator's own request when the spec of `spec_generation` suspends the job.
[[nodiscard]] std::string suspend_request_id(std::int64_t spec_generation);

/// True when rank 0 runs and takes requests.
[[nodiscard]] bool can_be_asked(const std::vector<Member>& members);

/// True when rank 0 of the current attempt has reported the request `id`.
[[nodiscard]] bool is_taken(const Observed& observed, const std::string& id);

/// Fails a pending request with the message `why`; does nothing if `why` is empty.
void abandon(std::optional<api::CheckpointRequest>& request, std::string_view why, Time now);

}  // namespace trainyard::plan
