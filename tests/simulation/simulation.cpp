#include "tests/simulation/simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/check.hpp"
#include "common/logging.hpp"
#include "operator/plan/names.hpp"

namespace trainyard::simulation {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds error_pause{100};  // What a queue's backoff would begin with.

local::MemoryApiOptions api_options() {
  local::MemoryApiOptions options;
  options.uid_seed = 1;
  return options;
}

}  // namespace

std::optional<plan::ProgressReport> FakeProgress::last_report(std::string_view job_uid) const {
  const auto found = reports_.find(job_uid);
  return found == reports_.end() ? std::nullopt : std::optional{found->second};
}

void FakeProgress::set(const std::string& job_uid, plan::ProgressReport report) {
  reports_[job_uid] = std::move(report);
}

Simulation::Simulation(const Options& options)
    : api{clock, api_options()}, faulty{api}, kubelet{api, clock}, options_{options}, random_{options.lag_seed} {
  // Thousands of lives would drown what a failing test has to say.
  logging::set_up(logging::Format::text, logging::Level::error);
  restart_operator();
}

void Simulation::restart_operator() {
  faulty.revive();
  caches_ = std::make_unique<reconcile::Caches>();
  reconciler_ = std::make_unique<reconcile::Reconciler>(
      faulty, clock, *caches_, progress_,
      reconcile::ReconcilerOptions{.settings = {.worker_image_cpu = "worker:cpu"},
                                   .creates_at_once_max = options_.creates_at_once_max});
  sync_caches(/*is_complete=*/true);
}

// ---- What a user does

void Simulation::apply(const json& manifest) {
  const auto created = api.create(kube::training_jobs, key_.name_space, manifest);
  check(created.has_value(), "a job can be applied");
  uid_ = created->at("metadata").at("uid");
}

void Simulation::edit(const json& spec) {
  check(
      api.patch(kube::training_jobs, key_.name_space, key_.name, kube::PatchType::merge, {{"spec", spec}}).has_value(),
      "a job can be edited");
}

void Simulation::delete_job() {
  check(api.remove(kube::training_jobs, key_.name_space, key_.name).has_value(), "a job can be deleted");
}

void Simulation::delete_pod(std::int64_t attempt, std::int64_t rank) {
  check(api.remove(kube::pods, key_.name_space, pod_name(attempt, rank)).has_value(), "a pod can be deleted");
}

// ---- What happens in the cluster

void Simulation::end(std::int64_t attempt, std::int64_t rank, int exit_code, const std::string& message) {
  kubelet.end(key_.name_space, pod_name(attempt, rank), exit_code, message);
}

void Simulation::finish(std::int64_t attempt) {
  const auto replicas = job()->status.replicas.desired;
  for (std::int64_t rank = 0; rank < replicas; ++rank) end(attempt, rank, 0);
}

void Simulation::vanish(std::int64_t attempt, std::int64_t rank) {
  kubelet.vanish(key_.name_space, pod_name(attempt, rank));
}

void Simulation::lose_node(std::int64_t rank) {
  const json conditions = json::array({{{"type", "Ready"}, {"status", "Unknown"}}});
  const json node{{"metadata", {{"name", fmt::format("node-{}", rank)}}}};
  check(api.create(kube::nodes, "", node).has_value(), "a node can be made");
  json lost = node;
  lost["status"]["conditions"] = conditions;
  check(api.update_status(kube::nodes, "", lost).has_value(), "a node can be lost");
}

void Simulation::report(plan::ProgressReport report) {
  progress_.set(uid_, std::move(report));
}

// ---- The loop

template <typename T, typename Parse>
void Simulation::sync(const kube::ResourceType& type, control::ObjectCache<T>& cache, Parse parse, bool is_complete) {
  if (!is_complete && options_.lag_seed != 0 && random_() % 3 != 0) return;
  // Most turns find nothing new. A list of nothing tells the version.
  const auto version = api.list(type, {.name_space = "none"})->resource_version;
  if (!is_complete && synced_versions_[type.plural] == version) return;
  const auto page = api.list(type, {});
  check(page.has_value(), "objects can be listed");
  synced_versions_[type.plural] = page->resource_version;
  std::set<control::ObjectKey> present;
  for (const json& object : page->items) {
    auto parsed = parse(object);
    check(parsed.has_value(), "the server's objects can be read");
    present.insert({.name_space = parsed->metadata.name_space, .name = parsed->metadata.name});
    cache.put(std::move(*parsed));
  }
  for (const T& object : cache.all()) {
    const control::ObjectKey key{.name_space = object.metadata.name_space, .name = object.metadata.name};
    if (!present.contains(key)) cache.erase(key);
  }
}

void Simulation::sync_caches(bool is_complete) {
  sync(kube::training_jobs, caches_->jobs, resource::parse_training_job, is_complete);
  sync(kube::pods, caches_->pods, resource::parse_pod, is_complete);
  sync(kube::services, caches_->services, resource::parse_service, is_complete);
  sync(kube::nodes, caches_->nodes, resource::parse_node, is_complete);
}

/// One turn of the operator. Whether there may be more to do at this instant.
bool Simulation::work_once() {
  if (faulty.is_dead()) restart_operator();
  sync_caches(/*is_complete=*/false);
  const auto requeue = reconciler_->reconcile(key_);
  if (!requeue) {
    clock.advance(requeue.error().retry_after.value_or(error_pause));
    return true;
  }
  requeue_after_ = *requeue;
  return requeue_after_ == milliseconds{0};
}

void Simulation::settle() {
  constexpr int turns_max = 400;
  is_at_rest_ = false;
  int quiet_turns = 0;
  // With lagging caches one quiet turn says little: news may be on its way.
  const int quiet_turns_wanted = options_.lag_seed == 0 ? 1 : 8;
  for (int turn = 0; turn < turns_max && quiet_turns < quiet_turns_wanted; ++turn) {
    const bool is_busy = work_once() || kubelet.step();
    quiet_turns = is_busy ? 0 : quiet_turns + 1;
  }
  is_at_rest_ = quiet_turns >= quiet_turns_wanted;
}

void Simulation::pass(milliseconds duration) {
  clock.advance(duration);
  settle();
}

bool Simulation::run_until(const std::function<bool()>& holds, std::chrono::seconds limit) {
  const Time end = clock.now() + limit;
  settle();
  while (!holds()) {
    if (clock.now() >= end) return false;
    const milliseconds wait = requeue_after_.value_or(milliseconds{1'000});
    pass(std::clamp(wait, milliseconds{1}, milliseconds{1'000}));
  }
  return true;
}

// ---- What can be seen

std::optional<resource::TrainingJob> Simulation::job() {
  const auto object = api.get(kube::training_jobs, key_.name_space, key_.name);
  if (!object) return std::nullopt;
  auto job = resource::parse_training_job(*object);
  check(job.has_value(), "the stored job can be read");
  return *job;
}

resource::TrainingJobStatus Simulation::status() {
  const auto current = job();
  return current ? current->status : resource::TrainingJobStatus{};
}

bool Simulation::is_phase(resource::Phase phase) {
  return status().phase == phase;
}

std::vector<std::string> Simulation::pods() {
  std::vector<std::string> found;
  for (const json& pod : kubelet.pods()) {
    found.push_back(fmt::format("{} {}", pod.at("metadata").at("name").get<std::string>(),
                                pod.value("/status/phase"_json_pointer, "Pending")));
  }
  std::ranges::sort(found);
  return found;
}

std::vector<std::string> Simulation::live_pods() {
  auto live = pods();
  std::erase_if(live, [](const std::string& pod) { return pod.ends_with("Succeeded") || pod.ends_with("Failed"); });
  return live;
}

std::string Simulation::pod_name(std::int64_t attempt, std::int64_t rank) {
  return plan::pod_name({.metadata = {.name = key_.name, .uid = uid_}}, attempt, rank);
}

std::vector<std::string> Simulation::events() {
  const auto page = api.list(kube::core_events, {});
  check(page.has_value(), "events can be listed");
  std::vector<std::string> reasons;
  for (const json& event : page->items) reasons.push_back(event.at("reason"));
  std::ranges::sort(reasons);
  return reasons;
}

std::vector<std::string> Simulation::twins() const {
  std::map<std::string, int> created;
  for (const fakes::ApiCall& call : faulty.done()) {
    if (call.verb == "create" && call.plural == "pods") ++created[call.name];
  }
  std::vector<std::string> twins;
  for (const auto& [name, count] : created) {
    if (count > 1) twins.push_back(name);
  }
  return twins;
}

}  // namespace trainyard::simulation
