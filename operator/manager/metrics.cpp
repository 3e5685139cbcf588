#include "operator/manager/metrics.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <vector>

namespace trainyard::manager {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

void add(std::vector<MetricFamily>& families, MetricType type, std::string name, std::string help,
         std::vector<ClientMetric> metrics) {
  families.push_back({.name = std::move(name), .help = std::move(help), .type = type, .metric = std::move(metrics)});
}

ClientMetric counter(std::int64_t value) {
  ClientMetric metric;
  metric.counter.value = static_cast<double>(value);
  return metric;
}

ClientMetric gauge(std::int64_t value, std::vector<ClientMetric::Label> labels = {}) {
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.gauge.value = static_cast<double>(value);
  return metric;
}

}  // namespace

std::string metrics_page(const OperatorMetrics& metrics) {
  std::vector<MetricFamily> families;
  add(families, MetricType::Gauge, "trainyard_operator_leader", "1 while this replica leads.",
      {gauge(metrics.is_leader ? 1 : 0)});
  add(families, MetricType::Counter, "trainyard_operator_reconciles_total", "Reconciles of jobs.",
      {counter(metrics.reconciles)});
  add(families, MetricType::Counter, "trainyard_operator_reconcile_errors_total",
      "Reconciles of jobs that failed and are tried again.", {counter(metrics.reconcile_errors)});
  add(families, MetricType::Gauge, "trainyard_operator_queue_depth", "Jobs that wait for a reconcile, due or not.",
      {gauge(metrics.queue_size)});
  add(families, MetricType::Counter, "trainyard_operator_watch_restarts_total",
      "Watches of the API server that were restarted.", {counter(metrics.watch_restarts)});
  std::vector<ClientMetric> jobs;
  for (const auto& [phase, count] : metrics.jobs_by_phase) {
    const std::string name{phase == api::Phase::none ? "New" : api::to_string(phase)};
    jobs.push_back(gauge(count, {{.name = "phase", .value = name}}));
  }
  add(families, MetricType::Gauge, "trainyard_jobs", "TrainingJobs by phase, on the replica that leads.",
      std::move(jobs));
  return prometheus::TextSerializer{}.Serialize(families);
}

}  // namespace trainyard::manager
