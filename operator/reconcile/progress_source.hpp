#pragma once

#include <optional>
#include <string_view>

#include "operator/plan/progress_report.hpp"

namespace trainyard::reconcile {

/// Source of the jobs' last progress reports. Never blocks, because it returns what was polled last. Any thread may
/// call.
class ProgressSource {
 public:
  virtual ~ProgressSource() = default;
  [[nodiscard]] virtual std::optional<plan::ProgressReport> last_report(std::string_view job_uid) const = 0;
};

}  // namespace trainyard::reconcile
