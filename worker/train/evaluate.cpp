#include "worker/train/evaluate.hpp"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/try.hpp"
#include "worker/data/batch_loader.hpp"
#include "worker/observe/metric_sinks.hpp"
#include "worker/train/batch_sequence.hpp"
#include "worker/train/program_call.hpp"

namespace trainyard::train {
namespace {

/// Puts a module into evaluation mode with `sink`, and restores each part's own mode at the end: a BatchNorm that the
/// model keeps in evaluation mode while it trains stays so.
class EvaluationMode {
 public:
  EvaluationMode(Module& module, observe::MetricSink& sink) : module_{module}, previous_{module.metric_sink()} {
    modes_.emplace_back(&module_, module_.is_training());
    for (const auto& part : module_.modules(/*include_self=*/false))
      modes_.emplace_back(part.get(), part->is_training());
    module_.eval();
    module_.set_metric_sink(&sink);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  ~EvaluationMode() {
    module_.set_metric_sink(previous_);
    for (const auto& [part, was_training] : modes_) {
      if (part->is_training() != was_training) part->train(was_training);
    }
  }

 private:
  Module& module_;
  observe::MetricSink* previous_;
  // A part comes before its own parts, because train() also sets their mode.
  std::vector<std::pair<torch::nn::Module*, bool>> modes_;
};

data::BatchLoader::Requests batches_of(const torch::Tensor& ids, std::int64_t batch_size) {
  return [ids, batch_size, begin = std::int64_t{0}]() mutable -> std::optional<data::BatchRequest> {
    if (begin >= ids.size(0)) return std::nullopt;
    const std::int64_t end = std::min(begin + batch_size, ids.size(0));
    return data::BatchRequest{.ids = ids.slice(0, std::exchange(begin, end), end)};
  };
}

}  // namespace

Result<std::optional<observe::MetricValues>> evaluate(Module& module, const Dataset& dataset,
                                                      const EvaluationOptions& options,
                                                      checkpoint::Communicator& communicator,
                                                      const EvaluationRounds& rounds) {
  observe::ValidationMetrics metrics;
  {
    const torch::NoGradGuard no_grad;
    const EvaluationMode mode{module, metrics};
    const std::int64_t world_size = communicator.world_size();
    const torch::Tensor mine =
        data::evaluation_samples(dataset.size(), {.rank = communicator.rank(), .world_size = world_size});
    const std::int64_t round_count = data::steps_for(dataset.size(), options.batch_size, world_size);
    data::BatchLoader batches{
        batches_of(mine, options.batch_size),
        [&dataset](const data::BatchRequest& request) { return dataset.gather(request.ids); },
        {.threads = options.loader_threads, .device = options.device, .classes = dataset.classes()}};
    for (std::int64_t round = 0; round < round_count; ++round) {
      rounds.begin();
      const bool has_samples = round * options.batch_size < mine.size(0);
      TRY(rounds.run_step([&] {
        if (!has_samples) return;
        const ProgramCall in_batch{" in batch ", round + 1};
        const Batch batch = next_batch(batches);
        metrics.set_batch_size(batch.size());
        const Autocast autocast{options.format, options.device};
        const Batch own = converted(batch, options.format);
        StepOutput output;
        {
          const ProgramCall call{options.function};
          output = options.step ? options.step(own, round) : module.validation_step(own, round);
        }
        const ProgramCall call{options.end_function};
        options.step_end ? options.step_end(std::move(output)) : module.validation_step_end(std::move(output));
      }));
      const auto goes_on = TRY(rounds.finish());
      if (!goes_on) return std::nullopt;
    }
  }
  TRY(rounds.before_reading());
  auto values = TRY(metrics.sums().reduce(communicator));
  return values;
}

}  // namespace trainyard::train
