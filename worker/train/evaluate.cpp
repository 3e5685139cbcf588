#include "worker/train/evaluate.hpp"

#include <torch/types.h>
#include <torch/utils.h>

#include "worker/observe/metric_sinks.hpp"

namespace trainyard::train {
namespace {

/// Puts a module into evaluation mode with a sink of its own, and back.
class EvaluationMode {
 public:
  EvaluationMode(Module& module, MetricSink& sink) : module_{module}, previous_{module.metric_sink()} {
    module_.eval();
    module_.set_metric_sink(&sink);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  ~EvaluationMode() {
    module_.set_metric_sink(previous_);
    module_.train();
  }

 private:
  Module& module_;
  MetricSink* previous_;
};

}  // namespace

Result<observe::MetricValues> evaluate(Module& module, const Dataset& dataset, std::int64_t batch_size,
                                       dist::Communicator& communicator, const std::function<void()>& on_batch) {
  observe::ValidationMetrics metrics;
  {
    const torch::NoGradGuard no_grad;
    const EvaluationMode mode{module, metrics};
    const torch::Tensor mine = data::evaluation_samples(
        dataset.size(), {.rank = communicator.rank(), .world_size = communicator.world_size()});
    std::int64_t batch_index = 0;
    for (const torch::Tensor& ids : mine.split(batch_size)) {
      if (ids.size(0) == 0) break;
      metrics.set_batch_size(ids.size(0));
      module.validation_step(dataset.gather(ids), batch_index++);
      on_batch();
    }
  }
  return metrics.sums().reduce(communicator);
}

}  // namespace trainyard::train
