#include "operator/manifest/spec_hash.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "operator/manifest/pod_environment.hpp"

namespace trainyard::manifest {
namespace {

/// FNV-1a, 64 bits. Needs no protection against collisions on purpose: both texts are the user's own.
std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : text) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 0x100000001b3;
  }
  return hash;
}

// Pods that earlier operators have made still run, with hashes of what those operators wrote. The two functions below
// give the same text, so that an upgrade restarts no job.

/// Earlier operators wrote three fields of a strategy even where the job left them out.
nlohmann::json training_parts(const api::TrainingSpec& spec) {
  nlohmann::json parts = api::to_json(spec);
  if (const auto strategy = parts.find("strategy"); strategy != parts.end()) {
    strategy->emplace("gradientCompression", "none");
    strategy->emplace("broadcastBuffers", true);
    strategy->emplace("syncBatchNorm", false);
  }
  return parts;
}

/// Earlier operators wrote an empty `every`, and s3.pathStyle, even where the job left them out.
nlohmann::json checkpoint_parts(const api::CheckpointSpec& spec) {
  nlohmann::json parts = worker_checkpoint(spec);
  parts.emplace("every", nlohmann::json::object());
  // Before pathStyle became optional it was false if a job did not set it.
  if (spec.s3 == api::S3Spec{}) parts["s3"]["pathStyle"] = false;
  return parts;
}

}  // namespace

std::string spec_hash(const api::TrainingJobSpec& spec) {
  nlohmann::json parts{{"replicas", spec.replicas}, {"gpusPerPod", spec.gpus_per_pod}, {"template", spec.pod_template}};
  if (spec.training) parts["training"] = training_parts(*spec.training);
  if (spec.checkpoint) parts["checkpoint"] = checkpoint_parts(*spec.checkpoint);
  return fmt::format("{:016x}", fnv1a(parts.dump()));
}

std::string spec_hash_of(const resource::Pod& pod) {
  const auto found = pod.metadata.annotations.find(std::string{spec_hash_annotation});
  return found == pod.metadata.annotations.end() ? std::string{} : found->second;
}

}  // namespace trainyard::manifest
