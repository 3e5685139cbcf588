#include "cli/local_job.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "api/training_job.hpp"
#include "api/validation/validate.hpp"
#include "cli/hosts.hpp"
#include "common/try.hpp"
#include "operator/manifest/containers.hpp"
#include "operator/manifest/objects.hpp"

namespace trainyard::cli {
namespace {

using nlohmann::json;

/// Sets gpusPerPod, and leaves out what would have to agree with it: training.devices, and the GPUs that containers ask
/// for. Without GPUs it also leaves out training.accelerator, and replaces strategy.processGroupBackend nccl by auto.
void set_gpus(json& spec, std::int64_t per_pod) {
  spec["gpusPerPod"] = per_pod;
  if (spec.contains("training")) spec["training"].erase("devices");
  if (spec.contains("training") && per_pod == 0) spec["training"].erase("accelerator");
  const auto backend = "/training/strategy/processGroupBackend"_json_pointer;
  if (per_pod == 0 && spec.contains(backend) && spec.at(backend) == "nccl") spec[backend] = "auto";
  const auto containers = "/template/spec/containers"_json_pointer;
  if (!spec.contains(containers)) return;
  for (json& container : spec[containers]) {
    for (const auto* list : {"limits", "requests"}) {
      if (container.contains("resources") && container["resources"].contains(list)) {
        container["resources"][list].erase("nvidia.com/gpu");
      }
    }
  }
}

bool asks_for_gpus(const json& spec) {
  const auto accelerator = spec.value("/training/accelerator"_json_pointer, "auto");
  return accelerator == "gpu" || accelerator == "cuda";
}

Result<void> check_accelerator(const json& spec, bool has_gpus) {
  if (has_gpus || !asks_for_gpus(spec)) return {};
  return fail(ErrorKind::invalid,
              "the job asks for GPUs (spec.training.accelerator is gpu), but this machine has none: leave it out to "
              "train on the CPU");
}

bool has_replicas_in_ranks_of(const json& spec) {
  const auto training = spec.find("training");
  if (training == spec.end()) return false;
  const auto parsed = api::parse_training_spec(*training);
  return parsed && api::has_replicas(parsed->strategy);
}

/// Makes dp and ddp2 divide each batch among as many replicas on the CPU as they would among GPUs. On a machine with
/// GPUs each still has one replica.
void keep_devices_as_replicas(json& spec) {
  const std::int64_t per_pod = spec.value("gpusPerPod", std::int64_t{1});
  if (per_pod > 1 && has_replicas_in_ranks_of(spec)) spec["training"]["strategy"]["cpuReplicas"] = per_pod;
}

Result<void> fit_gpus(json& spec, const std::vector<std::string>& gpus, std::vector<std::string>& notes) {
  const std::int64_t per_pod = spec.value("gpusPerPod", std::int64_t{1});
  const std::int64_t replicas = spec.value("replicas", std::int64_t{1});
  if (per_pod == 0) return {};
  TRY(check_accelerator(spec, !gpus.empty()));
  if (gpus.empty()) {
    notes.push_back(
        fmt::format("This machine has no GPU: gpusPerPod is 0 instead of {}, and training runs on the CPU.", per_pod));
    keep_devices_as_replicas(spec);
    set_gpus(spec, 0);
    return {};
  }
  if (per_pod * replicas > static_cast<std::int64_t>(gpus.size())) {
    return fail(ErrorKind::invalid,
                fmt::format("the job asks for {} GPUs ({} pods with {} each), but this machine has {}; lower "
                            "spec.replicas or spec.gpusPerPod",
                            per_pod * replicas, replicas, per_pod, gpus.size()));
  }
  return {};
}

/// Google's clients read credentials from a file. A Secret is a file only in a cluster, where it can be mounted.
void use_own_google_credentials(json& spec, std::vector<std::string>& notes) {
  const auto secret = "/checkpoint/credentialsSecret"_json_pointer;
  const bool is_googles = std::ranges::any_of(uri_fields, [&](std::string_view field) {
    return spec.value(json::json_pointer{std::string{field}}, "").starts_with("gs://");
  });
  if (!spec.contains(secret) || !is_googles) return;
  notes.push_back(
      fmt::format("The Secret {} (spec.checkpoint.credentialsSecret) is not used here: gs:// is reached with "
                  "this machine's own credentials, such as the file GOOGLE_APPLICATION_CREDENTIALS.",
                  spec[secret].get<std::string>()));
  spec["checkpoint"].erase("credentialsSecret");
}

}  // namespace

Result<LocalJob> adapt_to_machine(json job, const VolumeClaimFolders& folders, const std::vector<std::string>& gpus,
                                  const std::string& checkpoint_folder) {
  auto mapped = TRY(with_volume_claim_folders(std::move(job), folders));
  LocalJob adapted{.object = std::move(mapped), .notes = {}};
  json& spec = adapted.object.at("spec");
  if (spec.value("/checkpoint/onDelete"_json_pointer, "") == "Delete") {
    return fail(
        ErrorKind::invalid,
        "spec.checkpoint.onDelete: Delete works only in a cluster, since a job on this machine is never deleted. "
        "Leave it out here, and remove checkpoints with `trainyard checkpoints rm`");
  }
  TRY(fit_gpus(spec, gpus, adapted.notes));
  if (spec.value("suspend", false)) {
    adapted.notes.emplace_back("The job has spec.suspend: true, which is ignored here.");
    spec["suspend"] = false;
  }
  use_own_google_credentials(spec, adapted.notes);
  const bool makes_checkpoints = spec.contains("training") && spec.value("/training/task"_json_pointer, "fit") == "fit";
  if (makes_checkpoints && !spec.contains("checkpoint")) {
    adapted.object = with_checkpoint_folder(std::move(adapted.object), checkpoint_folder);
  }
  return adapted;
}

std::int64_t rank_count_of(const json& job) {
  const json& spec = job.at("spec");
  const auto pods = spec.value("replicas", std::int64_t{1});
  return has_replicas_in_ranks(job) ? pods
                                    : pods * std::max<std::int64_t>(spec.value("gpusPerPod", std::int64_t{1}), 1);
}

bool has_replicas_in_ranks(const json& job) {
  return has_replicas_in_ranks_of(job.at("spec"));
}

std::vector<std::string> step_lines(const json& job) {
  const auto given = job.at("spec").find("training");
  if (given == job.at("spec").end()) return {};
  const auto training = api::parse_training_spec(*given);
  if (!training || training->task != api::Task::fit) return {};
  const std::int64_t ranks = rank_count_of(job), batches = training->accumulate_grad_batches;
  if (ranks * batches == 1) return {};
  std::string line =
      fmt::format("A step sees {} samples: batchSize {}", training->batch_size * ranks * batches, training->batch_size);
  if (ranks > 1) line += fmt::format(" x {} ranks", ranks);
  if (batches > 1) line += fmt::format(" x accumulateGradBatches {}", batches);
  std::vector<std::string> lines{line + "."};
  if (ranks > 1 && api::has_mean_gradients(training->strategy) &&
      training->optimizer.lr_scaling == api::LrScaling::none) {
    const double lr = training->optimizer.lr;
    lines.push_back(
        fmt::format("optimizer.lr stays {:.6g} for {} ranks: optimizer.lrScaling linear would make it {:.6g}, "
                    "and sqrt {:.6g}.",
                    lr, ranks, lr * api::lr_factor(api::LrScaling::linear, ranks),
                    lr * api::lr_factor(api::LrScaling::sqrt, ranks)));
  }
  return lines;
}

json with_one_rank_per_pod(json job, std::int64_t rank_count) {
  json& spec = job.at("spec");
  spec["replicas"] = rank_count;
  keep_devices_as_replicas(spec);
  set_gpus(spec, 0);
  return job;
}

Result<void> check_rank_count(const json& job, std::int64_t rank_count) {
  const auto violations = api::validate_training_job(job);
  if (violations.empty()) return {};
  return fail(ErrorKind::invalid, fmt::format("with {} ranks: {}", rank_count, api::to_string(violations.front())));
}

namespace {

/// `job`, whose strategy is dp or ddp2, with one pod whose rank has `device_count` devices.
Result<LocalJob> with_devices_of_one_rank(json job, std::int64_t device_count, bool has_gpus) {
  json& spec = job.at("spec");
  spec["replicas"] = 1;
  set_gpus(spec, has_gpus ? device_count : 0);
  json& strategy = spec["training"]["strategy"];
  strategy.erase("cpuReplicas");
  if (!has_gpus) strategy["cpuReplicas"] = device_count;
  if (const auto violations = api::validate_training_job(job); !violations.empty())
    return fail(ErrorKind::invalid, fmt::format("with {} device{}: {}", device_count, device_count == 1 ? "" : "s",
                                                api::to_string(violations.front())));
  return LocalJob{.object = std::move(job),
                  .notes = {fmt::format("--devices: one rank, which divides its batches among {} {}.", device_count,
                                        has_gpus ? "GPUs" : "replicas on the CPU")}};
}

}  // namespace

Result<LocalJob> with_devices(json job, std::int64_t device_count, bool machine_has_gpus) {
  const bool has_gpus = machine_has_gpus && job.at("spec").value("/training/accelerator"_json_pointer, "auto") != "cpu";
  TRY(check_accelerator(job.at("spec"), has_gpus));
  if (has_replicas_in_ranks(job)) return with_devices_of_one_rank(std::move(job), device_count, has_gpus);
  json& spec = job.at("spec");
  const std::int64_t rank_count = device_count;
  const std::int64_t replicas = spec.value("replicas", std::int64_t{1});
  const std::int64_t per_pod = spec.value("gpusPerPod", std::int64_t{1});
  const std::int64_t devices_per_rank = has_gpus ? 1 : 0;
  spec["replicas"] = rank_count;
  set_gpus(spec, devices_per_rank);
  TRY(check_rank_count(job, rank_count));
  LocalJob changed{.object = std::move(job), .notes = {}};
  if (replicas != rank_count || per_pod != devices_per_rank) {
    changed.notes.push_back(
        fmt::format("--devices: {} rank{}, {}, in place of spec.replicas {} and spec.gpusPerPod {}.", rank_count,
                    rank_count == 1 ? "" : "s", has_gpus ? "each with a GPU" : "on the CPU", replicas, per_pod));
  }
  if (rank_count > 1 && changed.object.value("/spec/training/strategy/hierarchical"_json_pointer, false)) {
    changed.notes.emplace_back(
        "--devices: each rank is a pod of its own, so that strategy.hierarchical combines nothing within pods.");
  }
  return changed;
}

LocalJob with_restarts_max(LocalJob job, std::int64_t restarts_max) {
  json& restart = job.object.at("spec")["restart"];
  json& application = restart["application"]["max"];
  json& infrastructure = restart["infrastructure"]["max"];
  if (application != restarts_max || infrastructure != restarts_max) {
    job.notes.push_back(
        fmt::format("--max-restarts: {} of each cause, in place of spec.restart.application.max {} and "
                    "spec.restart.infrastructure.max {}.",
                    restarts_max, application.dump(), infrastructure.dump()));
  }
  application = restarts_max;
  infrastructure = restarts_max;
  return job;
}

Result<void> check_can_run(const json& job, const local::ProcessKubeletOptions& options) {
  json object = job;
  object["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000";
  auto parsed = TRY(api::parse_training_job(object));
  const manifest::Settings settings{.worker_image_cpu = "trainyard-worker", .worker_image_cuda = "trainyard-worker"};
  if (const std::string fault = manifest::template_fault(parsed.spec, settings); !fault.empty()) {
    return fail(ErrorKind::invalid, fault);
  }
  parsed.status.attempt = 1;
  parsed.status.replicas.desired = parsed.spec.replicas;
  const json pod = manifest::build_pod(parsed, 0, manifest::kubernetes_traits(), settings);
  std::string missing_secret;
  const local::ContainerContext context{
      .worker_program = options.worker_program,
      .volumes = options.volumes,
      .read_secret = [&](const std::string& name) -> Result<local::Variables> {
        if (const auto found = options.secrets.find(name); found != options.secrets.end()) return found->second;
        missing_secret = name;
        return fail(ErrorKind::not_found, fmt::format("secret \"{}\" not found", name));
      }};
  for (const auto* list : {"initContainers", "containers"}) {
    for (const auto& container : pod.at("spec").value(list, json::array())) {
      const auto spec = local::resolve_container(pod, container, context);
      if (spec) continue;
      if (missing_secret.empty()) return tl::unexpected(spec.error());
      return fail(ErrorKind::not_found,
                  fmt::format("Secret '{}' has no local file; add --secret {}=FILE, with lines KEY=VALUE",
                              missing_secret, missing_secret));
    }
  }
  return {};
}

Result<void> add_secret(std::string_view flag, std::map<std::string, local::Variables>& secrets) {
  const auto equals = flag.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == flag.size()) {
    return fail(ErrorKind::invalid,
                fmt::format("--secret {}: must be NAME=FILE, such as s3-credentials=credentials.env", flag));
  }
  const std::string file{flag.substr(equals + 1)};
  std::ifstream stream{file};
  if (!stream)
    return fail(ErrorKind::io, fmt::format("--secret {}: cannot read {}: {}", flag, file, std::strerror(errno)));
  local::Variables& values = secrets[std::string{flag.substr(0, equals)}];
  std::size_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || line.starts_with('#')) continue;
    const auto at = line.find('=');
    if (at == std::string::npos || at == 0) {
      return fail(ErrorKind::invalid, fmt::format("--secret {}: line {} of {} is not KEY=VALUE", flag, number, file));
    }
    values.insert_or_assign(line.substr(0, at), line.substr(at + 1));
  }
  return {};
}

local::Variables inherited_environment() {
  // The pod's own variables replace inherited ones, but a program would also read a launcher's variable that no pod
  // sets.
  local::Variables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, equals);
    if (name.starts_with("TORCHELASTIC_") || name.starts_with("PET_") || name.starts_with("TRAINYARD_")) {
      // Users may set the deadlines and the rank program.
      if (name != "TRAINYARD_RANK_PROGRAM" && !name.ends_with("_SECONDS")) continue;
    }
    variables.emplace(name, text.substr(equals + 1));
  }
  for (const auto* name : {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
                           "NODE_RANK", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE"})
    variables.erase(name);
  return variables;
}

Result<void> use_seats(local::ProcessKubeletOptions& kubelet, std::vector<local::RankSeat> seats,
                       const std::string& ssh_config) {
  TRY(add_own_address(seats));
  kubelet.seats = std::move(seats);
  kubelet.gpus.reset();
  kubelet.ssh_config = ssh_config.empty() ? "" : std::filesystem::absolute(ssh_config).string();
  std::error_code error;
  kubelet.self_program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return fail(ErrorKind::io, fmt::format("reading /proc/self/exe: {}", error.message()));
  return {};
}

}  // namespace trainyard::cli
