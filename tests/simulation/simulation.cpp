#include "tests/simulation/simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "api/contract.hpp"
#include "common/check.hpp"
#include "common/logging.hpp"
#include "local/memory_api.hpp"
#include "operator/manifest/names.hpp"

namespace trainyard::simulation {
namespace {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

constexpr milliseconds resync_interval{300'000};

local::MemoryApiOptions api_options() {
  local::MemoryApiOptions options;
  options.uid_seed = 1;
  options.admission = local::training_job_admission();
  return options;
}

/// True for an object that an intruder made, and for one of another job than `job`.
bool is_anothers(const json& object, const std::string& job) {
  const json labels = object.at("metadata").value("labels", json::object());
  return labels.contains(intruder_label) || labels.value(std::string{contract::label_job}, job) != job;
}

}  // namespace

std::optional<plan::ProgressReport> FakeProgress::last_report(std::string_view job_uid) const {
  const auto found = reports_.find(job_uid);
  return found == reports_.end() ? std::nullopt : std::optional{found->second};
}

void FakeProgress::set(const std::string& job_uid, plan::ProgressReport report) {
  reports_[job_uid] = std::move(report);
}

template <typename T>
void Feed<T>::list() {
  const auto page = api_.list(type_, {.label_selector = label_selector_});
  check(page.has_value(), "objects can be listed");
  sink_.begin_list();
  for (const json& object : page->items) {
    known_[{object.at("metadata").value("namespace", ""), object.at("metadata").at("name")}] = object;
    sink_.put(object);
  }
  sink_.end_list(page->resource_version);
  version_ = page->resource_version;
}

template <typename T>
void Feed<T>::follow() {
  // Most turns find nothing new. The list of an empty namespace is the cheapest way to read the API's version.
  if (api_.list(type_, {.name_space = "none"})->resource_version == version_) return;
  const auto page = api_.list(type_, {.label_selector = label_selector_});
  check(page.has_value(), "objects can be listed");
  version_ = page->resource_version;
  const auto before = std::exchange(known_, {});
  for (const json& object : page->items) {
    known_[{object.at("metadata").value("namespace", ""), object.at("metadata").at("name")}] = object;
  }
  for (const auto& [key, object] : before) {
    const auto now = known_.find(key);
    if (now == known_.end() || now->second.at("metadata").at("uid") != object.at("metadata").at("uid")) {
      sink_.erase(object);
    }
  }
  for (const auto& [key, object] : known_) {
    const auto last = before.find(key);
    if (last == before.end() || last->second != object) sink_.put(object);
  }
}

struct Simulation::Process {
  explicit Process(Simulation& world)
      : reconciler{world.faulty, world.clock, caches, world.progress_,
                   reconcile::ReconcilerOptions{.settings = {.worker_image_cpu = "worker:cpu", .request_key = "key"},
                                                .pod_calls_at_once_max = world.options_.pod_calls_at_once_max}},
        jobs{world.api,
             kube::training_jobs,
             "",
             caches.jobs,
             api::parse_training_job,
             [&world](const auto& job) {
               world.wake_job({job.metadata.name_space, job.metadata.name});
             }},
        pods{world.api,   kube::pods,          of_jobs,
             caches.pods, resource::parse_pod, [&world](const auto& pod) { world.wake_owner(pod.metadata); }},
        services{world.api,
                 kube::services,
                 of_jobs,
                 caches.services,
                 resource::parse_service,
                 [&world](const auto& service) { world.wake_owner(service.metadata); }},
        nodes{world.api, kube::nodes, "", caches.nodes, resource::parse_node, [this, &world](const auto& node) {
                if (caches.nodes.find({.name_space = {}, .name = node.metadata.name}) && node.is_ready) return;
                for (const auto& pod : caches.pods.on_node(node.metadata.name)) world.wake_owner(pod.metadata);
              }} {}

  const std::string of_jobs{contract::label_job};
  reconcile::Caches caches;
  control::KeySchedule schedule{{}};
  Time next_resync{};
  reconcile::Reconciler reconciler;
  Feed<api::TrainingJob> jobs;
  Feed<resource::Pod> pods;
  Feed<resource::Service> services;
  Feed<resource::Node> nodes;
};

Simulation::Simulation(const Options& options)
    : api{clock, api_options()}, faulty{api}, kubelet{api, clock}, options_{options}, random_{options.lag_seed} {
  // The log lines of thousands of lives would hide a failing test's output.
  logging::set_up(logging::Format::text, logging::Level::error);
  restart_operator();
}

Simulation::~Simulation() = default;

void Simulation::restart_operator() {
  faulty.revive();
  process_ = std::make_unique<Process>(*this);
  process_->next_resync = clock.now() + resync_interval;
  process_->jobs.list();
  process_->pods.list();
  process_->services.list();
  process_->nodes.list();
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

void Simulation::annotate(const std::string& name, const std::string& value) {
  json annotations;
  annotations[name] = value;
  check(api.patch(kube::training_jobs, key_.name_space, key_.name, kube::PatchType::merge,
                  {{"metadata", {{"annotations", annotations}}}})
            .has_value(),
        "a job can be annotated");
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

void Simulation::end_clean_up(int exit_code, const std::string& message) {
  kubelet.end(key_.name_space, clean_up_pod_name(), exit_code, message);
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
  wake_job(key_);
}

void Simulation::report(const control::ObjectKey& job, plan::ProgressReport report) {
  const auto object = api.get(kube::training_jobs, job.name_space, job.name);
  check(object.has_value(), "a job that reports is there");
  progress_.set(object->at("metadata").at("uid"), std::move(report));
  wake_job(job);
}

// ---- The loop

void Simulation::wake_job(const control::ObjectKey& job) {
  process_->schedule.add(job, clock.instant());
}

void Simulation::wake_owner(const api::Metadata& owned) {
  if (owned.controller) wake_job({.name_space = owned.name_space, .name = owned.controller->name});
}

/// One turn of the operator; true when it had anything to do.
bool Simulation::work_once() {
  if (intruder_) intruder_();
  if (faulty.is_dead()) restart_operator();
  const auto has_news = [&] { return options_.lag_seed == 0 || random_() % 3 == 0; };
  if (has_news()) process_->jobs.follow();
  if (has_news()) process_->pods.follow();
  if (has_news()) process_->services.follow();
  if (has_news()) process_->nodes.follow();
  if (clock.now() >= process_->next_resync) {
    process_->next_resync += resync_interval;
    for (const auto& job : process_->caches.jobs.keys()) wake_job(job);
  }
  control::KeySchedule& schedule = process_->schedule;
  const auto key = schedule.take(clock.instant());
  if (!key) return false;
  const auto again = process_->reconciler.reconcile(*key);
  if (again) {
    schedule.forget_failures(*key);
    if (*again) schedule.add(*key, clock.instant() + **again);
  } else {
    const milliseconds delay =
        std::max(schedule.count_failure(*key, clock.instant(), 0.5), again.error().retry_after.value_or(0ms));
    schedule.add(*key, clock.instant() + delay);
  }
  schedule.finish(*key);
  return true;
}

void Simulation::settle() {
  constexpr int turns_max = 400;
  if (is_given_up()) return;
  is_at_rest_ = false;
  int quiet_turns = 0;
  // With lagging caches one quiet turn proves little: changes may still be in flight.
  const int quiet_turns_wanted = options_.lag_seed == 0 ? 1 : 8;
  for (int turn = 0; turn < turns_max && quiet_turns < quiet_turns_wanted; ++turn) {
    const bool is_busy = work_once() || kubelet.step();
    quiet_turns = is_busy ? 0 : quiet_turns + 1;
  }
  is_at_rest_ = quiet_turns >= quiet_turns_wanted;
  restless_instants_ = is_at_rest_ ? 0 : restless_instants_ + 1;
}

void Simulation::advance(Time end) {
  // The kubelet does not say when it will act next.
  milliseconds step = std::min<milliseconds>(1s, end - clock.now());
  if (const auto due = process_->schedule.next_due()) {
    step = std::min(step, std::chrono::ceil<milliseconds>(*due - clock.instant()));
  }
  clock.advance(std::max(1ms, step));
  settle();
}

void Simulation::pass(milliseconds duration) {
  const Time end = clock.now() + duration;
  settle();
  while (clock.now() < end && !is_given_up()) advance(end);
}

bool Simulation::run_until(const std::function<bool()>& holds, std::chrono::seconds limit) {
  const Time end = clock.now() + limit;
  settle();
  while (!holds()) {
    if (clock.now() >= end || is_given_up()) return false;
    advance(end);
  }
  return true;
}

// ---- What can be seen

std::optional<api::TrainingJob> Simulation::job() {
  const auto object = api.get(kube::training_jobs, key_.name_space, key_.name);
  if (!object) return std::nullopt;
  auto job = api::parse_training_job(*object);
  check(job.has_value(), "the stored job can be read");
  return *job;
}

api::TrainingJobStatus Simulation::status() {
  const auto current = job();
  return current ? current->status : api::TrainingJobStatus{};
}

bool Simulation::is_phase(api::Phase phase) {
  return status().phase == phase;
}

std::vector<std::string> Simulation::pods() {
  std::vector<std::string> found;
  for (const json& pod : kubelet.pods()) {
    if (pod.at("metadata").at("namespace") != key_.name_space || is_anothers(pod, key_.name)) continue;
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
  return manifest::pod_name({.metadata = {.name = key_.name, .uid = uid_}}, attempt, rank);
}

std::string Simulation::clean_up_pod_name() const {
  return manifest::clean_up_pod_name({.metadata = {.name = key_.name, .uid = uid_}});
}

bool Simulation::is_cleaning_up() {
  return std::ranges::count(pods(), clean_up_pod_name() + " Running") == 1;
}

std::vector<std::string> Simulation::services() {
  const auto page = api.list(kube::services, {.name_space = key_.name_space});
  check(page.has_value(), "services can be listed");
  std::vector<std::string> services;
  for (const json& service : page->items) {
    if (is_anothers(service, key_.name)) continue;
    services.push_back(fmt::format("{} of attempt {}", service.at("metadata").at("name").get<std::string>(),
                                   service.at("spec").at("selector").value(contract::label_attempt, "-")));
  }
  return services;
}

std::vector<std::string> Simulation::events() {
  const auto page = api.list(kube::core_events, {.name_space = key_.name_space});
  check(page.has_value(), "events can be listed");
  std::vector<std::string> reasons;
  for (const json& event : page->items) {
    if (event.at("involvedObject").at("name") == key_.name) reasons.push_back(event.at("reason"));
  }
  std::ranges::sort(reasons);
  return reasons;
}

std::vector<std::string> Simulation::twins() const {
  const api::TrainingJob job{.metadata = {.name = key_.name, .uid = uid_}};
  std::map<std::string, int> created;
  for (const fakes::ApiCall& call : faulty.done()) {
    const bool is_pod = call.verb == "create" && call.plural == "pods" && call.name_space == key_.name_space;
    if (is_pod && manifest::pod_numbers(job, call.name)) ++created[call.name];
  }
  std::vector<std::string> twins;
  for (const auto& [name, count] : created) {
    if (count > 1) twins.push_back(name);
  }
  return twins;
}

std::vector<std::string> Simulation::foreign_deletes() const {
  std::set<std::string> made;
  std::vector<std::string> foreign;
  for (const fakes::ApiCall& call : faulty.done()) {
    if (call.verb == "create") made.insert(call.uid);
    if (call.verb != "delete" || call.plural == kube::training_jobs.plural || made.contains(call.uid)) continue;
    foreign.push_back(fmt::format("{} {}/{}", call.plural, call.name_space, call.name));
  }
  return foreign;
}

std::vector<std::string> Simulation::invalid_statuses() const {
  std::vector<std::string> invalid;
  for (const fakes::ApiCall& call : faulty.invalid()) {
    if (call.verb == "update status") invalid.push_back(fmt::format("{}/{}", call.name_space, call.name));
  }
  return invalid;
}

}  // namespace trainyard::simulation
