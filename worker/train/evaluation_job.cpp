#include "worker/train/evaluation_job.hpp"

#include <fmt/format.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "api/contract.hpp"
#include "checkpoint/run/agreement.hpp"
#include "common/logging.hpp"
#include "common/try.hpp"
#include "worker/data/batch_loader.hpp"
#include "worker/train/batch_sequence.hpp"
#include "worker/train/ending.hpp"
#include "worker/train/evaluate.hpp"
#include "worker/train/initial_weights.hpp"
#include "worker/train/log_fields.hpp"
#include "worker/train/prediction_files.hpp"
#include "worker/train/rank_context.hpp"
#include "worker/train/step_agreement.hpp"
#include "worker/train/training_state.hpp"

namespace trainyard::train {
namespace {

using namespace std::chrono_literals;

constexpr auto evaluation_report_interval = 250ms;
constexpr std::string_view evaluation_phase = "Validating";

struct TaskWords {
  std::string_view name;            // as training.task has it
  std::string_view done;            // "tested 100 samples"
  std::string_view function;        // of the module, that is called for each batch
  std::string_view end_function{};  // of the module, that follows it
};

TaskWords words_of(api::Task task) {
  switch (task) {
    case api::Task::test:
      return {.name = "test", .done = "tested", .function = "test_step()", .end_function = "test_step_end()"};
    case api::Task::predict:
      return {.name = "predict", .done = "predicted", .function = "predict_step()"};
    default:
      return {.name = "validate",
              .done = "validated",
              .function = "validation_step()",
              .end_function = "validation_step_end()"};
  }
}

class EvaluationJob {
 public:
  explicit EvaluationJob(const EvaluationJobParts& parts)
      : parts_{parts},
        agreement_{parts.group.process_group, parts.wait},
        context_{{.process_group = parts.group.process_group,
                  .communicator = *parts.group.communicator,
                  .wait = parts.wait,
                  .device = parts.device,
                  .process_sets = parts.process_sets}},
        reported_at_{parts.clock.instant()} {
    set_rank_context(&context_);
    parts_.module.set_image_sink(parts_.log_files);
    if (predicts())
      files_.emplace(*parts_.predictions,
                     PredictionFiles::Options{.rank = parts_.group.rank, .world_size = parts_.group.world_size});
  }
  EvaluationJob(const EvaluationJob&) = delete;
  EvaluationJob& operator=(const EvaluationJob&) = delete;
  ~EvaluationJob() {
    set_rank_context(nullptr);
    parts_.module.set_image_sink(nullptr);
  }

  [[nodiscard]] OrEnd<rank::RankEnd> run() {
    report("Loading");
    TRY(load_weights());
    TRY(clear_index());
    if (parts_.log_files != nullptr) parts_.log_files->begin(/*step=*/0, /*epoch=*/1);
    progress_.total_steps = data::steps_for(parts_.data.size(), parts_.training.batch_size, parts_.group.world_size);
    report(evaluation_phase);
    if (is_rank0()) log_beginning();
    const auto values = evaluate();
    if (!written_) return end_rank(Stage::save, written_.error());
    if (!values) return lost(parts_.link, Stage::step, values.error());
    if (!*values) return preempted();
    if (files_) {
      TRY(store_index());
    }
    return completed(**values);
  }

 private:
  [[nodiscard]] bool predicts() const { return parts_.training.task == api::Task::predict; }
  [[nodiscard]] bool is_rank0() const { return parts_.group.rank == 0; }

  void log_beginning() const {
    logging::info("evaluation begins", {{"task", words_of(parts_.training.task).name},
                                        {"model", parts_.training.model.name},
                                        {"worldSize", parts_.group.world_size},
                                        {"device", parts_.device.str()},
                                        {"replicas", parts_.replicas != nullptr ? parts_.replicas->count() : 1},
                                        {"batchSize", parts_.training.batch_size},
                                        {"samples", parts_.data.size()}});
  }

  [[nodiscard]] OrEnd<void> load_weights() {
    const api::ModelSpec& model = parts_.training.model;
    Result<void> loaded;
    if (!model.weights.empty()) {  // Otherwise a TorchScript file has the weights.
      loaded = load_initial_weights({.uri = model.weights, .sha256 = model.weights_sha256, .s3 = parts_.weights_s3},
                                    parts_.module, model_state(parts_.module), *parts_.group.communicator,
                                    parts_.start_patience, parts_.clock);
    }
    if (!loaded)
      return lost(parts_.link, loaded.error().kind == ErrorKind::cancelled ? Stage::step : Stage::data, loaded.error());
    if (auto done = parts_.gradients.synchronize_model(); !done) return lost(parts_.link, Stage::step, done.error());
    return {};
  }

  /// Removes the index of an earlier run before any of its files is replaced.
  [[nodiscard]] OrEnd<void> clear_index() {
    if (!files_) return {};
    Result<nlohmann::json> mine = nlohmann::json{};
    if (is_rank0()) mine = parts_.predictions->remove(predictions_index).map([] { return nlohmann::json{}; });
    if (const auto all = checkpoint::gather_all(*parts_.group.communicator, mine); !all)
      return lost(parts_.link, Stage::save, all.error());
    return {};
  }

  [[nodiscard]] Result<std::optional<observe::MetricValues>> evaluate() {
    const EvaluationOptions options{
        .batch_size = parts_.training.batch_size,
        .device = parts_.device,
        .loader_threads = loader_threads(parts_.training.data, parts_.data),
        .format = number_format(parts_.training),
        .step = [this](const Batch& batch, std::int64_t index) { return step(batch, index); },
        .function = words_of(parts_.training.task).function,
        .step_end = [this](StepOutput output) { step_end(std::move(output)); },
        .end_function = words_of(parts_.training.task).end_function};
    return train::evaluate(parts_.module, parts_.data, options, *parts_.group.communicator,
                           {.begin = [this] { agreement_.begin({.is_stop_asked = parts_.link.is_stop_requested()}); },
                            .finish = [this] { return finish_round(); },
                            .before_reading = [this]() -> Result<void> {
                              if (files_ && written_) written_ = files_->finish();
                              TRY(written_);
                              return parts_.in_flight != nullptr ? parts_.in_flight->finish() : Result<void>{};
                            }});
  }

  void set_rank_context(RankContext* context) {
    parts_.module.set_rank_context(context);
    if (parts_.replicas != nullptr) parts_.replicas->set_rank_context(context);
  }

  StepOutput step(const Batch& batch, std::int64_t index) {
    return parts_.replicas != nullptr ? step_of(*parts_.replicas, batch, index) : step_of(parts_.module, batch, index);
  }

  void step_end(StepOutput output) {
    if (parts_.training.task == api::Task::test) return parts_.module.test_step_end(std::move(output));
    if (!predicts()) parts_.module.validation_step_end(std::move(output));
  }

  /// `model`: the module, or its replicas.
  template <typename Model>
  StepOutput step_of(Model& model, const Batch& batch, std::int64_t index) {
    switch (parts_.training.task) {
      case api::Task::test:
        return model.test_step(batch, index);
      case api::Task::predict:
        written_ = files_->add(batch, model.predict_step(batch, index));
        return {};
      default:
        return model.validation_step(batch, index);
    }
  }

  [[nodiscard]] Result<bool> finish_round() {
    TRY(written_);
    parts_.link.beat();
    const auto flags = TRY(agreement_.finish());
    if (parts_.in_flight != nullptr) {
      TRY(parts_.in_flight->end_step());
    }
    progress_.step = progress_.step.value_or(0) + 1;
    if (parts_.clock.instant() - reported_at_ >= evaluation_report_interval) report(evaluation_phase);
    return !flags.is_stop_asked;
  }

  /// Stores the list of all ranks' files, once all are stored.
  [[nodiscard]] OrEnd<void> store_index() {
    nlohmann::json own = nlohmann::json::array();
    for (const PredictionFile& file : files_->files()) own.push_back({{"key", file.key}, {"samples", file.samples}});
    const auto all = checkpoint::gather_all(*parts_.group.communicator, own);
    if (!all) return lost(parts_.link, Stage::step, all.error());
    Result<nlohmann::json> mine = nlohmann::json{};
    if (is_rank0()) {
      nlohmann::json files = nlohmann::json::array();
      for (const nlohmann::json& of_rank : *all) files.insert(files.end(), of_rank.begin(), of_rank.end());
      const nlohmann::json index{{"model", parts_.training.model.name},
                                 {"weights", parts_.training.model.weights},
                                 {"samples", parts_.data.size()},
                                 {"files", files}};
      mine = storage::put_text(*parts_.predictions, predictions_index, index.dump(2) + "\n").map([] {
        return nlohmann::json{};
      });
      if (mine) logging::info("predictions stored", {{"index", parts_.predictions->uri_of(predictions_index)}});
    }
    if (const auto done = checkpoint::gather_all(*parts_.group.communicator, mine); !done)
      return lost(parts_.link, Stage::save, done.error());
    return {};
  }

  [[nodiscard]] rank::RankEnd preempted() const {
    return {.exit_code = contract::exit_preempted,
            .reason = "Preempted",
            .message = fmt::format("stopped as asked after {} of {} batches; the next start begins with the first",
                                   progress_.step.value_or(0), *progress_.total_steps),
            .culprit = {}};
  }

  [[nodiscard]] rank::RankEnd completed(const observe::MetricValues& values) {
    std::string message = fmt::format("{} {} samples", words_of(parts_.training.task).done, parts_.data.size());
    for (const auto& [name, value] : values) message += fmt::format(", {} {:.4g}", name, value);
    if (files_) message += fmt::format("; {} lists the files", parts_.predictions->uri_of(predictions_index));
    for (const std::string_view name : {"val_accuracy", "test_accuracy"}) {
      if (const auto found = values.find(std::string{name}); found != values.end()) progress_.accuracy = found->second;
    }
    if (parts_.log_files != nullptr) parts_.log_files->add(values, snapshot::Over::validation, /*epoch=*/1);
    if (is_rank0())
      logging::info("evaluated", {{"task", words_of(parts_.training.task).done},
                                  {"samples", parts_.data.size()},
                                  {"metrics", to_field(values)}});
    report("Done");
    return {.exit_code = contract::exit_success, .reason = "Completed", .message = message, .culprit = {}};
  }

  void report(std::string_view now) {
    reported_at_ = parts_.clock.instant();
    progress_.phase = now;
    parts_.link.report(progress_);
  }

  EvaluationJobParts parts_;
  StepAgreement agreement_;
  RankContext context_;
  std::optional<PredictionFiles> files_;  // of the task predict
  Result<void> written_;                  // an error: the storage refused a file
  rank::RankProgress progress_;
  Instant reported_at_;
};

}  // namespace

const Dataset* data_of(api::Task task, const Datasets& datasets) {
  const bool takes_test = task == api::Task::test || task == api::Task::predict;
  return takes_test && datasets.test != nullptr ? datasets.test.get() : datasets.validation.get();
}

rank::RankEnd run_evaluation_job(const EvaluationJobParts& parts) {
  EvaluationJob job{parts};
  auto ended = job.run();
  return ended ? *ended : ended.error();
}

}  // namespace trainyard::train
