#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/plan/member.hpp"
#include "operator/plan/observed.hpp"

namespace trainyard::plan {

/// Annotation of a TrainingJob by which a checkpoint is asked for: an id of the asker's own.
inline constexpr std::string_view checkpoint_request_annotation = "trainyard.dev/checkpoint-request";

struct RequestToSend {
  std::string id;
  bool is_last = false;  ///< The ranks end once it is saved.
  bool operator==(const RequestToSend&) const = default;
};

/// What rank 0 is to be asked for while the status stands as it does; empty: nothing. May be asked again and again.
[[nodiscard]] std::optional<RequestToSend> request_to_send(const api::TrainingJobStatus& status);

/// Follows the annotation and what rank 0 says of it: `status.checkpoint_request`. An id that has its answer is never
/// asked for again; one that comes while another waits for rank 0's answer is taken up after that answer.
/// Follows what rank 0 says of `status.suspend_request` as well.
void take_checkpoint_requests(api::TrainingJobStatus& status, const Observed& observed,
                              const std::vector<Member>& members, Time now);

/// The operator's own id for the suspension that the spec of `generation` asks for.
[[nodiscard]] std::string suspend_request_id(std::int64_t generation);

/// Whether rank 0 runs and can be asked.
[[nodiscard]] bool can_be_asked(const std::vector<Member>& members);

/// Whether rank 0 of the current attempt has said that it has taken the request `id`.
[[nodiscard]] bool is_taken(const Observed& observed, const std::string& id);

/// Ends a request that has no answer: there will be none.
void abandon(std::optional<api::CheckpointRequest>& request, std::string_view why, Time now);

}  // namespace trainyard::plan
