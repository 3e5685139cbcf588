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
  // Acts in several turns in a row, then pauses.
  if (acts_left_ == 0 || below(6) != 0) return;
  const auto victim = world_.job();
  if (!victim) return;
  --acts_left_;
  ++acts_;
  switch (below(8)) {
    case 0:
      return lead_own_job();
    case 1:
    case 2:
    case 3:
      return change();
    default:
      return forge(*victim);
  }
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
  auto& made = is_service ? services_ : pods_;
  if (is_made && std::ranges::find(made, key) == made.end()) made.push_back(key);
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

/// A job of the same name in another namespace.
void Intruder::lead_own_job() {
  const std::string name = "smoke";
  if (!world_.api.get(kube::training_jobs, home, name)) {
    json manifest = builders::a_job().replicas(1).manifest();
    manifest["metadata"]["namespace"] = home;
    static_cast<void>(world_.api.create(kube::training_jobs, home, manifest));
    return;
  }
  json patch;
  switch (below(3)) {
    case 0:
      static_cast<void>(world_.api.remove(kube::training_jobs, home, name));
      return;
    case 1:
      patch["spec"]["suspend"] = below(2) == 0;
      break;
    default:
      patch["metadata"]["annotations"][std::string{plan::checkpoint_request_annotation}] = std::string(9'000, '?');
  }
  static_cast<void>(world_.api.patch(kube::training_jobs, home, name, kube::PatchType::merge, patch));
}

std::vector<std::string> Intruder::deleted_by_operator() const {
  std::vector<std::string> deleted;
  for (const fakes::ApiCall& call : world_.faulty.done()) {
    if (call.verb != "delete") continue;
    const auto& made = call.plural == "pods" ? pods_ : services_;
    const Key key{call.name_space, call.name};
    if (std::ranges::find(made, key) != made.end()) deleted.push_back(fmt::format("{}/{}", key.first, key.second));
  }
  return deleted;
}

}  // namespace trainyard::simulation
