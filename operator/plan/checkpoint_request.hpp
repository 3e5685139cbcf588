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

/// Whether `id` has the form of contract::checkpoint_request_id_pattern.
[[nodiscard]] bool is_request_id(std::string_view id);

/// What rank 0 is to be asked for while the status stands as it does; empty: nothing. May be asked again and again.
[[nodiscard]] std::optional<std::string> request_to_send(const resource::TrainingJobStatus& status);

/// Follows the annotation and what rank 0 says of it: `status.checkpoint_request`. An id that has its answer is never
/// asked for again; one that comes while another waits for rank 0's answer is taken up after that answer.
void take_checkpoint_request(resource::TrainingJobStatus& status, const Observed& observed,
                             const std::vector<Member>& members, Time now);

}  // namespace trainyard::plan
