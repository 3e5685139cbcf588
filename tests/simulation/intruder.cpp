#include "tests/simulation/intruder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "api/contract.hpp"
#include "operator/manifest/names.hpp"
#include "operator/plan/request_status.hpp"

namespace trainyard::simulation {
namespace {

constexpr const char* home = "zz";

}  // namespace

void Intruder::act() {
  release();
  // Acts in several turns in a row, then pauses.
  if (acts_left_ == 0 || below(4) != 0) return;
  const auto victim = world_.job();
  if (!victim) return;
  // Most names are taken: it tries often.
  if (below(2) == 0 && !squat(*victim)) return;
  --acts_left_;
  ++acts_;
  if (below(2) == 0) return change();
  forge(*victim);
}

/// Any of the job's names in other namespaces; in the job's own namespace only names that look like them.
Intruder::Key Intruder::choose_pod(const api::TrainingJob& victim) {
  const std::string own = manifest::owned_name(victim);
  const std::int64_t attempt = std::max<std::int64_t>(1, victim.status.attempt);
  if (below(2) == 0) {
    const std::string exact = manifest::pod_name(victim, attempt + static_cast<std::int64_t>(below(2)), below(2));
    return {choose<std::string>({"aa", home}),
            choose<std::string>({exact, own + "-9-9", own + "-0-0", manifest::clean_up_pod_name(victim), "x-9-9"})};
  }
  return {victim.metadata.name_space,
          choose<std::string>({"x-9-9", "x-0-0", fmt::format("x-{}-0", attempt), own + "-0-0", own + "-900-9",
                               fmt::format("{}-0{}-0", own, attempt), own + "-cleanup-0",
                               own + "-99999999999999999999-0"})};
}

json Intruder::metadata_of(const api::TrainingJob& victim, const Key& key) {
  json metadata = manifest::owned_metadata(victim, key.second);
  metadata["namespace"] = key.first;
  metadata["labels"][intruder_label] = "true";
  metadata["labels"][std::string{contract::label_rank}] = std::to_string(below(3));
  metadata["labels"][std::string{contract::label_attempt}] = std::to_string(below(10));
  json& owner = metadata["ownerReferences"][0];
  if (below(8) == 0) owner["kind"] = "ReplicaSet";
  if (below(8) == 0) owner["name"] = "other";
  if (below(3) == 0) metadata["finalizers"] = {"intruder.example/hold"};
  return metadata;
}

void Intruder::forge(const api::TrainingJob& victim) {
  const bool is_service = below(6) == 0;
  Key key = choose_pod(victim);
  if (is_service)
    key = below(2) == 0 ? Key{home, manifest::service_name(victim)} : Key{victim.metadata.name_space, "svc"};
  json object{{"metadata", metadata_of(victim, key)}};
  if (!is_service) object["spec"]["containers"] = json::array({{{"name", "worker"}, {"image", "evil"}}});
  const bool is_made = world_.api.create(is_service ? kube::services : kube::pods, key.first, object).has_value();
  if (is_made && !is_service && std::ranges::find(pods_, key) == pods_.end()) pods_.push_back(key);
}

/// Takes the name of a pod of the job that is gone, or of its next attempt, for a pod that nobody owns. The job needs
/// the names of this attempt and of the next: they are given back. False if no name is free.
bool Intruder::squat(const api::TrainingJob& victim) {
  const std::int64_t current = std::max<std::int64_t>(1, victim.status.attempt);
  for (const std::int64_t attempt : {current - 1, current, current + 1}) {
    for (std::int64_t rank = 0; rank < victim.spec.replicas; ++rank) {
      if (attempt > 0 && take(victim, manifest::pod_name(victim, attempt, rank), attempt >= current)) return true;
    }
  }
  return take(victim, manifest::clean_up_pod_name(victim), true);
}

bool Intruder::take(const api::TrainingJob& victim, const std::string& name, bool is_needed) {
  json object{{"metadata", {{"name", name}, {"labels", {{intruder_label, "true"}}}}},
              {"spec", {{"containers", json::array({{{"name", "worker"}, {"image", "evil"}}})}}}};
  if (below(2) == 0) object["metadata"]["labels"][std::string{contract::label_job}] = victim.metadata.name;
  if (!world_.api.create(kube::pods, victim.metadata.name_space, object)) return false;
  if (!is_needed) return true;
  squats_.push_back({.key = {victim.metadata.name_space, name}, .until = world_.clock.now() + std::chrono::seconds{3}});
  return true;
}

void Intruder::release() {
  std::erase_if(squats_, [&](const Squat& squat) {
    if (squat.until > world_.clock.now()) return false;
    world_.kubelet.vanish(squat.key.first, squat.key.second);
    return true;
  });
}

/// A forged object ends, is deleted, or loses its finalizer.
void Intruder::change() {
  if (pods_.empty()) return;
  const auto& [name_space, name] = choose(pods_);
  const auto pod = world_.api.get(kube::pods, name_space, name);
  if (!pod) return;
  switch (below(4)) {
    case 0:
      static_cast<void>(world_.api.remove(kube::pods, name_space, name));
      return;
    case 1:
      static_cast<void>(world_.api.patch(kube::pods, name_space, name, kube::PatchType::merge,
                                         {{"metadata", {{"finalizers", nullptr}}}}));
      return;
    default:
      world_.kubelet.end(name_space, name, choose<int>({0, 1, 90, 91, 93, 137}),
                         R"({"exitCode": 93, "reason": "Completed", "message": "forged", "culprit": 0})");
  }
}

}  // namespace trainyard::simulation
