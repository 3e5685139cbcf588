#include "worker/train/evaluate.hpp"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <utility>

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

Result<std::optional<observe::MetricValues>> evaluate(Module& module, const Dataset& dataset, std::int64_t batch_size,
                                                      dist::Communicator& communicator,
                                                      const EvaluationRounds& rounds) {
  observe::ValidationMetrics metrics;
  {
    const torch::NoGradGuard no_grad;
    const EvaluationMode mode{module, metrics};
    const std::int64_t world_size = communicator.world_size();
    const torch::Tensor mine =
        data::evaluation_samples(dataset.size(), {.rank = communicator.rank(), .world_size = world_size});
    const std::int64_t round_count = data::steps_for(dataset.size(), batch_size, world_size);
    for (std::int64_t round = 0; round < round_count; ++round) {
      rounds.begin();
      const std::int64_t begin = std::min(round * batch_size, mine.size(0));
      const std::int64_t end = std::min(begin + batch_size, mine.size(0));
      if (begin < end) {
        metrics.set_batch_size(end - begin);
        module.validation_step(dataset.gather(mine.slice(0, begin, end)), round);
      }
      const auto goes_on = rounds.finish();
      if (!goes_on) return tl::unexpected{goes_on.error()};
      if (!*goes_on) return std::nullopt;
    }
  }
  auto values = metrics.sums().reduce(communicator);
  if (!values) return tl::unexpected{values.error()};
  return std::move(*values);
}

}  // namespace trainyard::train
