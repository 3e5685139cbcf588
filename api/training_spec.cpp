#include "api/training_spec.hpp"

#include <fmt/format.h>

#include <utility>

#include "api/field_reader.hpp"
#include "api/shown_value.hpp"
#include "common/duration.hpp"

namespace trainyard::api {
namespace {

using nlohmann::json;

constexpr EnumNames<DataFormat, 2> format_names{{{"synthetic", DataFormat::synthetic}, {"idx", DataFormat::idx}}};
constexpr EnumNames<OptimizerName, 3> optimizer_names{
    {{"adam", OptimizerName::adam}, {"adamw", OptimizerName::adamw}, {"sgd", OptimizerName::sgd}}};
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
  if (!model.options.empty()) object["options"] = model.options;
  if (!model.weights.empty()) object["weights"] = model.weights;
  if (!model.weights_sha256.empty()) object["weightsSha256"] = model.weights_sha256;
  return object;
}

/// Bounds what every rank gets in its environment, where Linux lets a variable have 128 KiB.
constexpr std::size_t options_bytes_max = 65'536;

void read_options(FieldReader& model, json& options) {
  const json* found = model.find("options");
  if (found == nullptr) return;
  if (!found->is_object()) return model.report("options", fmt::format("must be an object, got {}", shown(*found)));
  const std::size_t bytes = found->dump(-1, ' ', false, json::error_handler_t::replace).size();
  if (bytes > options_bytes_max) {
    return model.report("options", fmt::format("must be at most {} bytes of JSON, got {}; put large values into a file",
                                               options_bytes_max, bytes));
  }
  options = *found;
}

void read_data(FieldReader& fields, DataSpec& data) {
  fields.read("format", data.format, format_names);
  fields.read("volumeClaim", data.volume_claim);
  fields.read("path", data.path);
  fields.read("uri", data.uri);
  fields.read("samples", data.samples, at_least_one);
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
  return object;
}

void read_optimizer(FieldReader& fields, OptimizerSpec& optimizer) {
  fields.read("name", optimizer.name, optimizer_names);
  fields.read("lr", optimizer.lr, NumberRange{.is_min_open = true});
  fields.read("momentum", optimizer.momentum, NumberRange{.max = 1, .is_max_open = true});
  fields.read("weightDecay", optimizer.weight_decay, NumberRange{});
  fields.read("beta1", optimizer.beta1, NumberRange{.max = 1, .is_max_open = true});
  fields.read("beta2", optimizer.beta2, NumberRange{.max = 1, .is_max_open = true});
  fields.read("eps", optimizer.eps, NumberRange{.is_min_open = true});
}

json to_json(const OptimizerSpec& optimizer) {
  json object{{"name", name_of(optimizer.name)}, {"lr", optimizer.lr}, {"weightDecay", optimizer.weight_decay}};
  if (optimizer.name == OptimizerName::sgd) {
    object["momentum"] = optimizer.momentum;
  } else {
    object["beta1"] = optimizer.beta1;
    object["beta2"] = optimizer.beta2;
    object["eps"] = optimizer.eps;
  }
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

std::string_view name_of(OptimizerName name) {
  return name_of(name, optimizer_names);
}

Result<TrainingSpec> parse_training_spec(const json& object) {
  std::optional<Error> problem;
  FieldReader fields{object, "spec.training", problem};
  TrainingSpec spec;
  fields.require("model");
  fields.read_object("model", [&](FieldReader& model) {
    model.require("name");
    model.read("name", spec.model.name);
    read_options(model, spec.model.options);
    model.read("weights", spec.model.weights);
    model.read("weightsSha256", spec.model.weights_sha256);
  });
  fields.read_object("data", [&](FieldReader& data) { read_data(data, spec.data); });
  fields.read("batchSize", spec.batch_size, at_least_one);
  fields.read("epochs", spec.epochs, at_least_one);
  fields.read("maxSteps", spec.max_steps, at_least_one);
  fields.read_object("optimizer", [&](FieldReader& optimizer) { read_optimizer(optimizer, spec.optimizer); });
  fields.read("seed", spec.seed);
  fields.read_object("validateEvery", [&](FieldReader& every) { spec.validate_every = read_every(every); });
  fields.read_object("log", [&](FieldReader& log) {
    log.read_object("every", [&](FieldReader& every) { spec.log_every = read_every(every); });
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
  json object{{"model", to_json(spec.model)},
              {"data", to_json(spec.data)},
              {"batchSize", spec.batch_size},
              {"optimizer", to_json(spec.optimizer)},
              {"seed", spec.seed},
              {"log", {{"every", to_json(spec.log_every)}}}};
  if (spec.epochs) object["epochs"] = *spec.epochs;
  if (spec.max_steps) object["maxSteps"] = *spec.max_steps;
  if (spec.validate_every) object["validateEvery"] = to_json(*spec.validate_every);
  if (spec.snapshots) object["snapshots"] = {{"every", to_json(spec.snapshots->every)}};
  return object;
}

json to_json(const CheckpointSpec& spec) {
  json object{{"uri", spec.uri},
              {"every", to_json(spec.every)},
              {"whenBusy", name_of(spec.when_busy, when_busy_names)},
              {"keep", to_json(spec.keep)},
              {"resume", resume_text(spec)},
              {"onSuspend", name_of(spec.on_suspend, on_suspend_names)},
              {"onDelete", name_of(spec.on_delete, on_delete_names)}};
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
