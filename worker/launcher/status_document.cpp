#include "worker/launcher/status_document.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "worker/rank/rank_message.hpp"

namespace trainyard::launcher {
namespace {

using nlohmann::json;

std::string label_value(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

/// Collects one gauge after the other.
class Metrics {
 public:
  explicit Metrics(std::string labels) : labels_{std::move(labels)} {}

  void gauge(std::string_view name, std::string_view help, double value) {
    const std::string number = std::isnan(value)   ? "NaN"
                               : std::isinf(value) ? (value > 0 ? "+Inf" : "-Inf")
                                                   : fmt::format("{}", value);
    text_ += fmt::format("# HELP {0} {1}\n# TYPE {0} gauge\n{0}{{{2}}} {3}\n", name, help, labels_, number);
  }
  /// One series for each of `values`, with its name as the label `label`.
  void gauges(std::string_view name, std::string_view help, std::string_view label,
              const std::map<std::string, double>& values) {
    if (values.empty()) return;
    text_ += fmt::format("# HELP {0} {1}\n# TYPE {0} gauge\n", name, help);
    for (const auto& [value_name, value] : values)
      text_ += fmt::format("{}{{{},{}=\"{}\"}} {}\n", name, labels_, label, label_value(value_name), value);
  }
  template <typename T>
  void gauge(std::string_view name, std::string_view help, const std::optional<T>& value) {
    if (value) gauge(name, help, static_cast<double>(*value));
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string labels_;
  std::string text_;
};

}  // namespace

std::string make_status_document(const rank::GroupEnvironment& environment, const Status& status) {
  json object{{"uid", environment.job_uid},
              {"attempt", environment.attempt},
              {"rank", status.rank},
              {"worldSize", environment.world_size},
              {"phase", "Rendezvous"}};
  if (status.progress) object.update(rank::to_json(*status.progress));
  if (!status.waiting_for.empty()) object["waitingFor"] = status.waiting_for;
  // Replaces the rank's own request record, which may be of the previous request.
  if (status.checkpoint_request) object["checkpointRequest"] = rank::to_json(*status.checkpoint_request);
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string make_metrics_document(const rank::GroupEnvironment& environment, const Status& status) {
  Metrics metrics{fmt::format("namespace=\"{}\",job=\"{}\",attempt=\"{}\",rank=\"{}\"",
                              label_value(environment.job_namespace), label_value(environment.job), environment.attempt,
                              status.rank)};
  metrics.gauge("trainyard_world_size", "Ranks of the job.", static_cast<double>(environment.world_size));
  const rank::RankProgress progress = status.progress.value_or(rank::RankProgress{});
  metrics.gauge("trainyard_epoch", "Epoch that is being trained, from 1.", progress.epoch);
  metrics.gauge("trainyard_step", "Optimizer steps finished.", progress.step);
  metrics.gauge("trainyard_steps_planned", "Optimizer steps that the whole training has.", progress.total_steps);
  metrics.gauge("trainyard_loss", "Mean loss of all ranks since the report before.", progress.loss);
  metrics.gauge("trainyard_samples_per_second", "Samples that the whole job trains in a second.",
                progress.samples_per_second);
  metrics.gauge("trainyard_eta_seconds", "Estimated time until training ends.", progress.eta_seconds);
  metrics.gauges("trainyard_step_milliseconds", "This rank's time per step, by the part of the step.", "part",
                 progress.step_milliseconds);
  metrics.gauge("trainyard_accuracy", "Accuracy of the last validation, in 0 to 1.", progress.accuracy);
  if (const auto& saved = progress.checkpoint) {
    metrics.gauge("trainyard_checkpoint_step", "Step of the last complete checkpoint.",
                  static_cast<double>(saved->step));
    metrics.gauge("trainyard_checkpoint_bytes", "Size of the last complete checkpoint.",
                  static_cast<double>(saved->bytes));
    metrics.gauge("trainyard_checkpoint_timestamp_seconds",
                  "When the last complete checkpoint was saved, as Unix time.",
                  std::chrono::duration<double>(saved->time.time_since_epoch()).count());
  }
  return metrics.text();
}

}  // namespace trainyard::launcher
