#include "operator/manager/controller.hpp"

#include <exception>
#include <random>

#include "api/contract.hpp"
#include "common/interruptible_wait.hpp"
#include "common/logging.hpp"
#include "operator/plan/request_status.hpp"
#include "operator/reconcile/events.hpp"

namespace trainyard::manager {
namespace {

using control::ObjectKey;
using std::chrono::milliseconds;

std::string full_name(const ObjectKey& key) {
  return key.name_space + "/" + key.name;
}

/// `options` with a callback that resets a job's backoff at each creation. Without it a group whose creates succeed one
/// by one (because the server throttles, or updates of a quota conflict) would wait longer and longer.
reconcile::ReconcilerOptions with_news_of_creations(reconcile::ReconcilerOptions options, control::WorkQueue& queue) {
  options.on_creation = [&queue](const ObjectKey& key) { queue.forget_failures(key); };
  return options;
}

}  // namespace

Controller::Controller(kube::Api& api, const Clock& clock, ControllerOptions options, Counters& counters)
    : api_{api},
      clock_{clock},
      options_{std::move(options)},
      counters_{counters},
      queue_{options_.queue},
      poller_{caches_,
              clock,
              options_.reconciler.traits,
              options_.call_rank,
              [this](const ObjectKey& key) { queue_.add(key); },
              options_.poller},
      reconciler_{api, clock, caches_, poller_, with_news_of_creations(options_.reconciler, queue_)} {
  add_informers();
  unlisted_ = informers_.size();
  for (const auto& informer : informers_) {
    threads_.emplace_back([&informer = *informer](const std::stop_token& stop) { informer.run(stop); });
  }
  for (int worker = 0; worker < options_.workers; ++worker) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
  threads_.emplace_back([this](const std::stop_token& stop) { resync(stop); });
}

Controller::~Controller() {
  // Asks all threads to stop before the first is joined.
  for (std::jthread& thread : threads_) thread.request_stop();
}

bool Controller::is_synced() const {
  const std::scoped_lock lock{mutex_};
  return unlisted_ == 0;
}

std::int64_t Controller::watch_restarts() const {
  std::int64_t restarts = 0;
  for (const auto& informer : informers_) restarts += std::max<std::int64_t>(informer->watch_restarts(), 0);
  return restarts;
}

std::map<api::Phase, std::int64_t> Controller::jobs_by_phase() const {
  std::map<api::Phase, std::int64_t> counts;
  caches_.jobs.for_each([&](const api::TrainingJob& job) { ++counts[job.status.phase]; });
  return counts;
}

template <typename T>
void Controller::inform(const kube::ResourceType& type, control::ObjectCache<T>& cache,
                        control::InformerOptions options, typename control::CacheSink<T>::Parse parse,
                        typename control::CacheSink<T>::OnChange on_change,
                        typename control::CacheSink<T>::OnUnreadable on_unreadable) {
  auto sink = std::make_unique<control::CacheSink<T>>(cache, options.name_space, std::move(parse), std::move(on_change),
                                                      std::move(on_unreadable));
  informers_.push_back(
      std::make_unique<control::Informer>(api_, type, std::move(options), *sink, [this] { count_first_list(); }));
  sinks_.push_back(std::move(sink));
}

void Controller::add_informers() {
  const std::string of_jobs{contract::label_job};
  const auto namespaces = options_.namespaces.empty() ? std::vector<std::string>{""} : options_.namespaces;
  for (const std::string& name_space : namespaces) {
    inform<api::TrainingJob>(
        kube::training_jobs, caches_.jobs, {.name_space = name_space}, api::parse_training_job,
        [this](const auto& job) { on_job(job); },
        [this](const auto& metadata, const Error& error) { on_unreadable_job(metadata, error); });
    inform<resource::Pod>(kube::pods, caches_.pods, {.name_space = name_space, .label_selector = of_jobs},
                          resource::parse_pod, [this](const auto& pod) { enqueue_owner(pod.metadata); });
    inform<resource::Service>(kube::services, caches_.services, {.name_space = name_space, .label_selector = of_jobs},
                              resource::parse_service,
                              [this](const auto& service) { enqueue_owner(service.metadata); });
    inform<resource::MountFailure>(kube::events, caches_.mount_failures,
                                   {.name_space = name_space,
                                    .field_selector = std::string{resource::mount_failure_selector},
                                    .is_optional = true},
                                   resource::parse_mount_failure,
                                   [this](const auto& failure) { on_mount_failure(failure); });
  }
  if (options_.is_watching_nodes) {
    inform<resource::Node>(kube::nodes, caches_.nodes, {.is_optional = true}, resource::parse_node,
                           [this](const auto& node) { on_node(node); });
  }
}

void Controller::on_job(const api::TrainingJob& job) {
  const ObjectKey key{job.metadata.name_space, job.metadata.name};
  {
    const std::scoped_lock lock{mutex_};
    unreadable_.erase(key);
  }
  queue_.add(key);
  poller_.track(key);
  // A user waits for the checkpoint.
  if (plan::request_to_send(job.status)) poller_.poll_now(key);
}

void Controller::on_unreadable_job(const api::Metadata& job, const Error& error) {
  const ObjectKey key{job.name_space, job.name};
  {
    const std::scoped_lock lock{mutex_};
    unreadable_.insert_or_assign(key, Unreadable{.metadata = job, .why = error.message});
  }
  queue_.add(key);
}

void Controller::on_node(const resource::Node& node) {
  const bool is_there = caches_.nodes.find({.name_space = {}, .name = node.metadata.name}).has_value();
  if (is_there && node.is_ready) return;
  for (const resource::Pod& pod : caches_.pods.on_node(node.metadata.name)) enqueue_owner(pod.metadata);
}

void Controller::on_mount_failure(const resource::MountFailure& failure) {
  if (const auto pod = caches_.pods.find({failure.metadata.name_space, failure.pod})) enqueue_owner(pod->metadata);
}

void Controller::enqueue_owner(const api::Metadata& owned) {
  // Reads the owner and not the label, because users can edit labels.
  if (owned.controller) queue_.add({owned.name_space, owned.controller->name});
}

void Controller::count_first_list() {
  {
    const std::scoped_lock lock{mutex_};
    --unlisted_;
  }
  listed_.notify_all();
}

bool Controller::wait_for_first_lists(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  return listed_.wait(lock, stop, [this] { return unlisted_ == 0; });
}

void Controller::work(const std::stop_token& stop) {
  if (!wait_for_first_lists(stop)) return;
  while (const auto key = queue_.take(stop)) reconcile(*key);
}

void Controller::reconcile(const ObjectKey& key) {
  Result<std::optional<milliseconds>> again;
  try {
    again = report_if_unreadable(key).and_then([&] { return reconciler_.reconcile(key); });
  } catch (const std::exception& unexpected) {
    // JSON of an unforeseen shape throws an exception, which must not stop the other jobs.
    again = fail(ErrorKind::internal, unexpected.what());
  }
  ++counters_.reconciles;
  if (!again) {
    ++counters_.reconcile_errors;
    const milliseconds delay = queue_.fail(key, again.error().retry_after);
    logging::warn("reconcile will be tried again",
                  {{"job", full_name(key)}, {"error", again.error().message}, {"delayMs", delay.count()}});
  } else if (*again) {
    queue_.succeed_and_requeue(key, **again);
  } else {
    queue_.succeed(key);
  }
}

Result<void> Controller::report_if_unreadable(const ObjectKey& key) {
  std::optional<Unreadable> unreadable;
  {
    const std::scoped_lock lock{mutex_};
    const auto found = unreadable_.find(key);
    if (found == unreadable_.end()) return {};
    unreadable = found->second;
  }
  const plan::Event event{.reason = "Unreadable",
                          .is_warning = true,
                          .note = "the operator cannot read this job and leaves it as it is: " + unreadable->why};
  auto told = reconcile::record_event(api_, {.metadata = unreadable->metadata}, event, options_.reconciler.instance,
                                      clock_.now());
  if (!told && told.error().kind != ErrorKind::forbidden && told.error().kind != ErrorKind::not_found) return told;
  const std::scoped_lock lock{mutex_};
  const auto found = unreadable_.find(key);
  const bool is_same =
      found != unreadable_.end() && found->second.metadata.resource_version == unreadable->metadata.resource_version;
  if (is_same) unreadable_.erase(found);
  return {};
}

void Controller::resync(const std::stop_token& stop) {
  std::minstd_rand random{std::random_device{}()};
  while (wait_unless_stopped(stop, options_.resync_interval)) {
    // Spreads the jobs over time, to avoid a burst.
    std::uniform_int_distribution<std::int64_t> spread{0, options_.resync_interval.count() / 2};
    for (const ObjectKey& job : caches_.jobs.keys()) queue_.add_after(job, milliseconds{spread(random)});
  }
}

}  // namespace trainyard::manager
