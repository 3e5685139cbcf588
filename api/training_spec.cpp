#include "api/training_spec.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "api/field_reader.hpp"
#include "common/time_text.hpp"

namespace trainyard::api {
namespace {

using nlohmann::json;

constexpr EnumNames<DataFormat, 8> format_names{{{"synthetic", DataFormat::synthetic},
                                                 {"idx", DataFormat::idx},
                                                 {"cifar10", DataFormat::cifar10},
                                                 {"cifar100", DataFormat::cifar100},
                                                 {"images", DataFormat::images},
                                                 {"imagePairs", DataFormat::image_pairs},
                                                 {"tokens", DataFormat::tokens},
                                                 {"safetensors", DataFormat::safetensors}}};
constexpr EnumNames<ModelKind, 2> model_kind_names{
    {{"program", ModelKind::program}, {"torchscript", ModelKind::torchscript}}};
constexpr EnumNames<Task, 4> task_names{
    {{"fit", Task::fit}, {"validate", Task::validate}, {"test", Task::test}, {"predict", Task::predict}}};
constexpr EnumNames<OptimizerName, 4> optimizer_names{{{"adam", OptimizerName::adam},
                                                       {"adamw", OptimizerName::adamw},
                                                       {"lamb", OptimizerName::lamb},
                                                       {"sgd", OptimizerName::sgd}}};
constexpr EnumNames<LrScaling, 3> lr_scaling_names{
    {{"none", LrScaling::none}, {"linear", LrScaling::linear}, {"sqrt", LrScaling::sqrt}}};
constexpr EnumNames<LrScheduleName, 5> lr_schedule_names{{{"constant", LrScheduleName::constant},
                                                          {"step", LrScheduleName::step},
                                                          {"linear", LrScheduleName::linear},
                                                          {"cosine", LrScheduleName::cosine},
                                                          {"plateau", LrScheduleName::plateau}}};
constexpr EnumNames<OnNonFiniteLoss, 4> non_finite_names{{{"continue", OnNonFiniteLoss::proceed},
                                                          {"stop", OnNonFiniteLoss::stop},
                                                          {"skip", OnNonFiniteLoss::skip},
                                                          {"rewind", OnNonFiniteLoss::rewind}}};
constexpr EnumNames<Float32MatmulPrecision, 3> matmul_names{{{"highest", Float32MatmulPrecision::highest},
                                                             {"high", Float32MatmulPrecision::high},
                                                             {"medium", Float32MatmulPrecision::medium}}};
constexpr EnumNames<LogFile, 3> log_file_names{
    {{"tensorboard", LogFile::tensorboard}, {"jsonl", LogFile::jsonl}, {"csv", LogFile::csv}}};
/// The first name of each value is the one that is written; the others are short for it.
constexpr EnumNames<Precision, 10> precision_names{{{"32-true", Precision::fp32},
                                                    {"64-true", Precision::fp64},
                                                    {"16-mixed", Precision::fp16_mixed},
                                                    {"bf16-mixed", Precision::bf16_mixed},
                                                    {"16-true", Precision::fp16},
                                                    {"bf16-true", Precision::bf16},
                                                    {"32", Precision::fp32},
                                                    {"64", Precision::fp64},
                                                    {"16", Precision::fp16_mixed},
                                                    {"bf16", Precision::bf16_mixed}}};
constexpr std::string_view resume_automatic = "auto";
constexpr std::string_view resume_none = "none";
constexpr EnumNames<BestMode, 2> best_mode_names{{{"max", BestMode::max}, {"min", BestMode::min}}};
constexpr EnumNames<WhenBusy, 2> when_busy_names{{{"skip", WhenBusy::skip}, {"wait", WhenBusy::wait}}};

constexpr EnumNames<OnSuspend, 2> on_suspend_names{{{"request", OnSuspend::request}, {"signal", OnSuspend::signal}}};
constexpr EnumNames<OnDelete, 2> on_delete_names{{{"Retain", OnDelete::retain}, {"Delete", OnDelete::remove}}};

constexpr IntegerRange at_least_one{.min = 1};

template <typename Enum, std::size_t count>
std::string_view name_of(Enum value, const EnumNames<Enum, count>& names) {
  for (const auto& [name, candidate] : names) {
    if (candidate == value) return name;
  }
  return {};
}

Every read_every(FieldReader& fields) {
  Every every;
  fields.read("steps", every.steps, at_least_one);
  fields.read("epochs", every.epochs, at_least_one);
  fields.read("time", every.time);
  fields.read("best", every.best);
  return every;
}

json to_json(const Every& every) {
  json object = json::object();
  if (every.steps) object["steps"] = *every.steps;
  if (every.epochs) object["epochs"] = *every.epochs;
  if (every.time) object["time"] = format_duration(*every.time);
  if (every.best) object["best"] = true;
  return object;
}

json to_json(const ModelSpec& model) {
  json object{{"name", model.name}};
  if (model.kind != ModelKind::program) object["kind"] = name_of(model.kind, model_kind_names);
  if (!model.uri.empty()) object["uri"] = model.uri;
  if (!model.sha256.empty()) object["sha256"] = model.sha256;
  if (!model.options.empty()) object["options"] = model.options;
  if (!model.weights.empty()) object["weights"] = model.weights;
  if (!model.weights_sha256.empty()) object["weightsSha256"] = model.weights_sha256;
  return object;
}

/// Bounds what every rank gets in its environment, where Linux lets a variable have 128 KiB.
constexpr std::size_t options_bytes_max = 65'536;
constexpr std::size_t data_options_bytes_max = 4'096;

void read_options(FieldReader& owner, json& options, std::size_t bytes_max) {
  const json* found = owner.find("options");
  if (found == nullptr) return;
  if (!found->is_object()) return owner.report("options", fmt::format("must be an object, got {}", shown(*found)));
  const std::size_t bytes = found->dump(-1, ' ', false, json::error_handler_t::replace).size();
  if (bytes > bytes_max) {
    return owner.report("options", fmt::format("must be at most {} bytes of JSON, got {}; put large values into a file",
                                               bytes_max, bytes));
  }
  options = *found;
}

void read_data(FieldReader& fields, DataSpec& data) {
  fields.read("format", data.format, format_names);
  fields.read("volumeClaim", data.volume_claim);
  fields.read("path", data.path);
  fields.read("uri", data.uri);
  fields.read("samples", data.samples, at_least_one);
  read_options(fields, data.options, data_options_bytes_max);
  fields.read("loaderThreads", data.loader_threads, IntegerRange{.max = 64});
  fields.read("replaceSampler", data.replace_sampler);
  if (!data.uri.empty() && !(data.path.empty() && data.volume_claim.empty())) {
    fields.report("uri", "excludes volumeClaim and path: the data is in one place");
  }
}

json to_json(const DataSpec& data) {
  json object{{"format", name_of(data.format)}};
  if (!data.volume_claim.empty()) object["volumeClaim"] = data.volume_claim;
  if (!data.path.empty()) object["path"] = data.path;
  if (!data.uri.empty()) object["uri"] = data.uri;
  if (data.format == DataFormat::synthetic) object["samples"] = data.samples;
  if (!data.options.empty()) object["options"] = data.options;
  if (data.loader_threads) object["loaderThreads"] = *data.loader_threads;
  // Earlier operators did not write this field: what they wrote is in the hash of specs whose pods still run.
  if (!data.replace_sampler) object["replaceSampler"] = false;
  return object;
}

void read_optimizer(FieldReader& fields, OptimizerSpec& optimizer) {
  fields.read("name", optimizer.name, optimizer_names);
  fields.read("lr", optimizer.lr, NumberRange{.is_min_open = true});
  fields.read("lrScaling", optimizer.lr_scaling, lr_scaling_names);
  fields.read("momentum", optimizer.momentum, NumberRange{.max = 1, .is_max_open = true});
  fields.read("nesterov", optimizer.nesterov);
  if (optimizer.nesterov && optimizer.momentum == 0.0) fields.report("nesterov", "needs momentum");
  fields.read("weightDecay", optimizer.weight_decay, NumberRange{});
  fields.read("beta1", optimizer.beta1, NumberRange{.max = 1, .is_max_open = true});
  fields.read("beta2", optimizer.beta2, NumberRange{.max = 1, .is_max_open = true});
  fields.read("eps", optimizer.eps, NumberRange{.is_min_open = true});
}

json to_json(const OptimizerSpec& optimizer) {
  json object{{"name", name_of(optimizer.name)}, {"lr", optimizer.lr}, {"weightDecay", optimizer.weight_decay}};
  if (optimizer.lr_scaling != LrScaling::none) object["lrScaling"] = name_of(optimizer.lr_scaling, lr_scaling_names);
  if (optimizer.name == OptimizerName::sgd) {
    object["momentum"] = optimizer.momentum;
    if (optimizer.nesterov) object["nesterov"] = true;
  } else {
    object["beta1"] = optimizer.beta1;
    object["beta2"] = optimizer.beta2;
    object["eps"] = optimizer.eps;
  }
  return object;
}

void read_lr_schedule(FieldReader& fields, LrScheduleSpec& schedule) {
  fields.read("name", schedule.name, lr_schedule_names);
  fields.read("warmupSteps", schedule.warmup_steps);
  fields.read("minLr", schedule.min_lr, NumberRange{});
  fields.read_object("every", [&](FieldReader& every) { schedule.every = read_every(every); });
  fields.read("factor", schedule.factor, NumberRange{.max = 1, .is_min_open = true});
  fields.read("metric", schedule.metric);
  fields.read("mode", schedule.mode, best_mode_names);
  fields.read("patience", schedule.patience);
  fields.read("threshold", schedule.threshold, NumberRange{.max = 1, .is_max_open = true});
  if (schedule.name == LrScheduleName::step && !schedule.every.steps && !schedule.every.epochs)
    fields.report("every", "is needed by step; give steps or epochs, such as {epochs: 30}");
  if (schedule.name == LrScheduleName::plateau) fields.require("metric");
}

json to_json(const LrScheduleSpec& schedule) {
  json object{{"name", name_of(schedule.name, lr_schedule_names)}, {"warmupSteps", schedule.warmup_steps}};
  const bool is_step = schedule.name == LrScheduleName::step;
  const bool is_plateau = schedule.name == LrScheduleName::plateau;
  if (schedule.min_lr != 0.0) object["minLr"] = schedule.min_lr;
  if (is_step) object["every"] = to_json(schedule.every);
  if (is_step || is_plateau) object["factor"] = schedule.factor;
  if (!is_plateau) return object;
  object["metric"] = schedule.metric;
  object["mode"] = name_of(schedule.mode, best_mode_names);
  object["patience"] = schedule.patience;
  object["threshold"] = schedule.threshold;
  return object;
}

void read_gradient_clip(FieldReader& fields, GradientClipSpec& clip) {
  fields.read("norm", clip.norm, NumberRange{.is_min_open = true});
  fields.read("value", clip.value, NumberRange{.is_min_open = true});
  if (clip.norm.has_value() == clip.value.has_value())
    fields.report("norm", "or value must be given, and only one of them, such as {norm: 1.0}");
}

json to_json(const GradientClipSpec& clip) {
  return clip.norm ? json{{"norm", *clip.norm}} : json{{"value", clip.value.value_or(0.0)}};
}

void read_early_stopping(FieldReader& fields, EarlyStoppingSpec& stopping) {
  fields.require("metric");
  fields.read("metric", stopping.metric);
  fields.read("mode", stopping.mode, best_mode_names);
  fields.read("patience", stopping.patience, at_least_one);
  fields.read("minDelta", stopping.min_delta, NumberRange{});
}

json to_json(const EarlyStoppingSpec& stopping) {
  return {{"metric", stopping.metric},
          {"mode", name_of(stopping.mode, best_mode_names)},
          {"patience", stopping.patience},
          {"minDelta", stopping.min_delta}};
}

/// YAML reads `precision: 16` as a number.
void read_precision(FieldReader& training, Precision& precision) {
  const json* found = training.find("precision");
  if (found == nullptr) return;
  const std::string text = found->is_string() ? found->get<std::string>() : found->dump();
  for (const auto& [name, value] : precision_names) {
    if (name == text) {
      precision = value;
      return;
    }
  }
  std::vector<std::string_view> names;
  for (const auto& [name, value] : precision_names) names.push_back(name);
  training.report("precision", fmt::format("must be one of {}, got {}", fmt::join(names, ", "), shown(*found)));
}

void check_op(FieldReader& training, const TrainingSpec& spec) {
  if (spec.strategy.op != ReductionOp::adasum || spec.precision != Precision::fp16_mixed) return;
  training.report(
      "strategy.op",
      "is adasum, with which each rank steps by its own gradients, and 16-mixed may skip the step of one rank alone");
}

void check_strategy(FieldReader& training, const TrainingSpec& spec) {
  const GradientCompression compression = spec.strategy.gradient_compression;
  const bool is_16_bit = spec.precision == Precision::fp16 || spec.precision == Precision::bf16;
  if (compression != GradientCompression::none && is_16_bit)
    training.report("strategy.gradientCompression", "is for gradients of 32 or 64 bits, and this precision has 16");
  if (compression == GradientCompression::powersgd && spec.precision == Precision::fp16_mixed) {
    training.report(
        "strategy.gradientCompression",
        "is powersgd, which adds the error of one step to the next, whose loss 16-mixed may scale otherwise");
  }
}

void read_log(FieldReader& log, TrainingSpec& spec) {
  log.read_object("every", [&](FieldReader& every) { spec.log_every = read_every(every); });
  std::vector<std::string> files;
  log.read("files", files);
  for (const std::string& file : files) {
    const auto found = std::ranges::find(log_file_names, file, &EnumName<LogFile>::first);
    if (found == log_file_names.end())
      return log.report("files", fmt::format("must have only tensorboard, jsonl and csv, got \"{}\"", file));
    if (std::ranges::find(spec.log_files, found->second) == spec.log_files.end())
      spec.log_files.push_back(found->second);
  }
  log.read("uri", spec.log_uri);
}

json log_to_json(const TrainingSpec& spec) {
  json object{{"every", to_json(spec.log_every)}};
  for (const LogFile file : spec.log_files) object["files"].push_back(name_of(file, log_file_names));
  if (!spec.log_uri.empty()) object["uri"] = spec.log_uri;
  return object;
}

void read_keep(FieldReader& fields, KeepSpec& keep) {
  fields.read("last", keep.last, IntegerRange{.min = 2});
  fields.read_object("every", [&](FieldReader& every) { keep.every = read_every(every); });
  fields.read_object("best", [&](FieldReader& best) {
    keep.best.emplace();
    best.require("metric");
    best.read("metric", keep.best->metric);
    best.read("mode", keep.best->mode, best_mode_names);
    best.read("count", keep.best->count, at_least_one);
  });
}

json to_json(const KeepSpec& keep) {
  json object{{"last", keep.last}};
  if (keep.every != Every{}) object["every"] = to_json(keep.every);
  if (keep.best) {
    object["best"] = {{"metric", keep.best->metric},
                      {"mode", name_of(keep.best->mode, best_mode_names)},
                      {"count", keep.best->count}};
  }
  return object;
}

void read_local(FieldReader& fields, LocalSpec& local) {
  fields.require("path");
  fields.read("path", local.path);
  if (!local.path.starts_with('/'))
    fields.report("path", fmt::format("must be an absolute path, such as /local/checkpoints, got \"{}\"", local.path));
  fields.require("every");
  fields.read_object("every", [&](FieldReader& every) { local.every = read_every(every); });
  if (!local.every.steps && !local.every.time)
    fields.report("every", "is empty; give steps or time, such as {time: 30s}");
  fields.read("keep", local.keep, at_least_one);
}

json to_json(const LocalSpec& local) {
  return {{"path", local.path}, {"every", to_json(local.every)}, {"keep", local.keep}};
}

void read_resume(FieldReader& fields, CheckpointSpec& spec) {
  std::string text{resume_automatic};
  fields.read("resume", text);
  if (text == resume_none) spec.resume = ResumeMode::none;
  if (text == resume_none || text == resume_automatic) return;
  if (text.find(':') == std::string::npos)
    return fields.report("resume", fmt::format("must be auto, none or the URI of checkpoints, got \"{}\"", text));
  spec.resume_uri = std::move(text);
}

std::string resume_text(const CheckpointSpec& spec) {
  if (!spec.resume_uri.empty()) return spec.resume_uri;
  return std::string{spec.resume == ResumeMode::none ? resume_none : resume_automatic};
}

}  // namespace

std::string_view name_of(DataFormat format) {
  return name_of(format, format_names);
}

double lr_factor(LrScaling scaling, std::int64_t rank_count) {
  switch (scaling) {
    case LrScaling::none:
      return 1.0;
    case LrScaling::linear:
      return static_cast<double>(rank_count);
    case LrScaling::sqrt:
      return std::sqrt(static_cast<double>(rank_count));
  }
  return 1.0;
}

std::string_view name_of(OptimizerName name) {
  return name_of(name, optimizer_names);
}

Result<TrainingSpec> parse_training_spec(const json& object) {
  std::optional<Error> problem;
  FieldReader fields{object, "spec.training", problem};
  TrainingSpec spec;
  fields.require("model");
  fields.read_object("model", [&](FieldReader& model) {
    model.read("kind", spec.model.kind, model_kind_names);
    if (spec.model.kind == ModelKind::program) model.require("name");
    if (spec.model.kind == ModelKind::torchscript) spec.model.name = name_of(spec.model.kind, model_kind_names);
    model.read("name", spec.model.name);
    model.read("uri", spec.model.uri);
    model.read("sha256", spec.model.sha256);
    read_options(model, spec.model.options, options_bytes_max);
    model.read("weights", spec.model.weights);
    model.read("weightsSha256", spec.model.weights_sha256);
  });
  fields.read_object("data", [&](FieldReader& data) { read_data(data, spec.data); });
  fields.read("batchSize", spec.batch_size, at_least_one);
  fields.read("epochs", spec.epochs, at_least_one);
  fields.read("maxSteps", spec.max_steps, at_least_one);
  fields.read("task", spec.task, task_names);
  fields.read_object("optimizer", [&](FieldReader& optimizer) { read_optimizer(optimizer, spec.optimizer); });
  fields.read("accumulateGradBatches", spec.accumulate_grad_batches, at_least_one);
  fields.read_object("lrSchedule", [&](FieldReader& schedule) { read_lr_schedule(schedule, spec.lr_schedule); });
  fields.read_object("gradientClip",
                     [&](FieldReader& clip) { read_gradient_clip(clip, spec.gradient_clip.emplace()); });
  fields.read_object("ema", [&](FieldReader& ema) {
    ema.read("decay", spec.ema.emplace().decay, NumberRange{.max = 1, .is_max_open = true});
  });
  fields.read_object("earlyStopping",
                     [&](FieldReader& stopping) { read_early_stopping(stopping, spec.early_stopping.emplace()); });
  fields.read("onNonFiniteLoss", spec.on_non_finite_loss, non_finite_names);
  read_precision(fields, spec.precision);
  read_devices(fields, spec.device);
  fields.read_object("strategy", [&](FieldReader& strategy) { read_strategy(strategy, spec.strategy); });
  check_strategy(fields, spec);
  check_op(fields, spec);
  fields.read("float32MatmulPrecision", spec.float32_matmul_precision, matmul_names);
  fields.read("channelsLast", spec.channels_last);
  fields.read("cudnnBenchmark", spec.cudnn_benchmark);
  fields.read("deterministic", spec.deterministic);
  fields.read("seed", spec.seed);
  fields.read_object("validateEvery", [&](FieldReader& every) { spec.validate_every = read_every(every); });
  fields.read_object("log", [&](FieldReader& log) { read_log(log, spec); });
  fields.read_object("profile", [&](FieldReader& profile) {
    spec.profile.emplace();
    profile.read("firstStep", spec.profile->first_step, at_least_one);
    profile.read("steps", spec.profile->steps, IntegerRange{.min = 1, .max = 100});
  });
  fields.read_object("snapshots", [&](FieldReader& snapshots) {
    spec.snapshots.emplace();
    snapshots.read_object("every", [&](FieldReader& every) { spec.snapshots->every = read_every(every); });
  });
  if (problem) return tl::unexpected(*problem);
  return spec;
}

Result<CheckpointSpec> parse_checkpoint_spec(const json& object) {
  std::optional<Error> problem;
  FieldReader fields{object, "spec.checkpoint", problem};
  CheckpointSpec spec;
  fields.require("uri");
  fields.read("uri", spec.uri);
  fields.read_object("every", [&](FieldReader& every) { spec.every = read_every(every); });
  fields.read("whenBusy", spec.when_busy, when_busy_names);
  fields.read_object("keep", [&](FieldReader& keep) { read_keep(keep, spec.keep); });
  if (spec.every.best && !spec.keep.best)
    fields.report("every.best", "needs keep.best, which says by which metric a checkpoint is the best");
  read_resume(fields, spec);
  fields.read("credentialsSecret", spec.credentials_secret);
  fields.read_object("s3", [&](FieldReader& s3) {
    s3.read("endpoint", spec.s3.endpoint);
    s3.read("region", spec.s3.region);
    s3.read("pathStyle", spec.s3.path_style);
    s3.read("serverSideEncryption", spec.s3.server_side_encryption);
    s3.read("kmsKeyId", spec.s3.kms_key_id);
  });
  fields.read_object("local", [&](FieldReader& local) { read_local(local, spec.local.emplace()); });
  fields.read("onSuspend", spec.on_suspend, on_suspend_names);
  fields.read("onDelete", spec.on_delete, on_delete_names);
  if (problem) return tl::unexpected(*problem);
  return spec;
}

json to_json(const TrainingSpec& spec) {
  json object{{"model", to_json(spec.model)},         {"data", to_json(spec.data)}, {"batchSize", spec.batch_size},
              {"optimizer", to_json(spec.optimizer)}, {"seed", spec.seed},          {"log", log_to_json(spec)}};
  if (spec.task != Task::fit) object["task"] = name_of(spec.task, task_names);
  if (spec.epochs) object["epochs"] = *spec.epochs;
  if (spec.max_steps) object["maxSteps"] = *spec.max_steps;
  if (spec.accumulate_grad_batches > 1) object["accumulateGradBatches"] = spec.accumulate_grad_batches;
  add_devices(object, spec.device);
  if (spec.strategy != StrategySpec{}) object["strategy"] = to_json(spec.strategy);
  if (spec.lr_schedule != LrScheduleSpec{}) object["lrSchedule"] = to_json(spec.lr_schedule);
  if (spec.gradient_clip) object["gradientClip"] = to_json(*spec.gradient_clip);
  if (spec.ema) object["ema"] = {{"decay", spec.ema->decay}};
  if (spec.early_stopping) object["earlyStopping"] = to_json(*spec.early_stopping);
  if (spec.on_non_finite_loss != OnNonFiniteLoss::proceed)
    object["onNonFiniteLoss"] = name_of(spec.on_non_finite_loss, non_finite_names);
  if (spec.precision != Precision::fp32) object["precision"] = name_of(spec.precision, precision_names);
  if (spec.float32_matmul_precision != Float32MatmulPrecision::highest)
    object["float32MatmulPrecision"] = name_of(spec.float32_matmul_precision, matmul_names);
  if (spec.channels_last) object["channelsLast"] = true;
  if (spec.cudnn_benchmark) object["cudnnBenchmark"] = true;
  if (spec.deterministic) object["deterministic"] = true;
  if (spec.validate_every) object["validateEvery"] = to_json(*spec.validate_every);
  if (spec.profile) object["profile"] = {{"firstStep", spec.profile->first_step}, {"steps", spec.profile->steps}};
  if (spec.snapshots) object["snapshots"] = {{"every", to_json(spec.snapshots->every)}};
  return object;
}

json to_json(const CheckpointSpec& spec) {
  json object{{"uri", spec.uri},
              {"whenBusy", name_of(spec.when_busy, when_busy_names)},
              {"keep", to_json(spec.keep)},
              {"resume", resume_text(spec)},
              {"onSuspend", name_of(spec.on_suspend, on_suspend_names)},
              {"onDelete", name_of(spec.on_delete, on_delete_names)}};
  if (spec.every != Every{}) object["every"] = to_json(spec.every);
  if (!spec.credentials_secret.empty()) object["credentialsSecret"] = spec.credentials_secret;
  json s3 = json::object();
  if (spec.s3.path_style) s3["pathStyle"] = *spec.s3.path_style;
  if (!spec.s3.endpoint.empty()) s3["endpoint"] = spec.s3.endpoint;
  if (!spec.s3.region.empty()) s3["region"] = spec.s3.region;
  if (!spec.s3.server_side_encryption.empty()) s3["serverSideEncryption"] = spec.s3.server_side_encryption;
  if (!spec.s3.kms_key_id.empty()) s3["kmsKeyId"] = spec.s3.kms_key_id;
  object["s3"] = std::move(s3);
  if (spec.local) object["local"] = to_json(*spec.local);
  return object;
}

}  // namespace trainyard::api
