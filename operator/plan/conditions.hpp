#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "api/training_job.hpp"
#include "common/text.hpp"

namespace trainyard::plan {

/// Largest size of a message in the status. The end of a longer message is kept, since logs say there what went wrong.
inline constexpr std::size_t message_bytes_max = 1024;

/// `text` without surrounding blanks, cut to message_bytes_max between two UTF-8 characters.
[[nodiscard]] inline std::string bounded_text(std::string_view text) {
  return keep_end(trim(text), message_bytes_max);
}

inline constexpr std::string_view condition_training = "Training";
inline constexpr std::string_view condition_complete = "Complete";
inline constexpr std::string_view condition_failed = "Failed";
inline constexpr std::string_view condition_suspended = "Suspended";
inline constexpr std::string_view condition_spec_pending = "SpecPending";
inline constexpr std::string_view condition_invalid_template = "InvalidTemplate";
inline constexpr std::string_view condition_name_conflict = "NameConflict";
inline constexpr std::string_view condition_non_finite_loss = "NonFiniteLoss";
inline constexpr std::string_view condition_checkpoint_failing = "CheckpointFailing";
inline constexpr std::string_view condition_progress_unavailable = "ProgressUnavailable";
inline constexpr std::string_view condition_cleaning_up = "CleaningUp";
inline constexpr std::string_view condition_status_refused = "StatusRefused";

[[nodiscard]] bool is_condition_true(const api::TrainingJobStatus& status, std::string_view type);

/// Time of the condition's last change between True and False; empty if it was never raised.
[[nodiscard]] std::optional<Time> condition_since(const api::TrainingJobStatus& status, std::string_view type);

/// Sets the condition to True. The message is cut to what the status may hold (bounded_text).
void raise_condition(api::TrainingJobStatus& status, std::string_view type, std::string reason,
                     std::string_view message, Time now);
/// Sets the condition to False if it is True. A condition that was never raised is not listed.
void clear_condition(api::TrainingJobStatus& status, std::string_view type, std::string reason, Time now);

}  // namespace trainyard::plan
