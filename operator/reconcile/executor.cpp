#include "operator/reconcile/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>
#include <variant>

#include "api/contract.hpp"
#include "common/logging.hpp"
#include "common/try.hpp"
#include "operator/manifest/names.hpp"
#include "operator/manifest/objects.hpp"
#include "operator/plan/deletion.hpp"
#include "operator/plan/refused_status.hpp"
#include "operator/reconcile/events.hpp"
#include "operator/reconcile/shared_calls.hpp"

namespace trainyard::reconcile {
namespace {

control::ObjectKey key_of(const api::Metadata& metadata) {
  return {.name_space = metadata.name_space, .name = metadata.name};
}

std::string full_name(const api::TrainingJob& job) {
  return fmt::format("{}/{}", job.metadata.name_space, job.metadata.name);
}

/// True when the object has the label by which informers select our objects. No cache ever shows an object without it.
bool is_labelled(const api::Metadata& metadata) {
  return metadata.labels.contains(std::string{contract::label_job});
}

bool is_preparation(const plan::Action& action) {
  return std::holds_alternative<plan::CheckPod>(action) || std::holds_alternative<plan::CreateService>(action) ||
         std::holds_alternative<plan::DeselectPods>(action);
}

Error joined(const Error& creating, const Error& deleting) {
  return {.kind = creating.kind,
          .message = fmt::format("{}; {}", creating.message, deleting.message),
          .retry_after = std::max(creating.retry_after, deleting.retry_after)};
}

nlohmann::json status_update(const api::TrainingJob& job, const api::TrainingJobStatus& status) {
  // The UID is a precondition too: a job that was deleted and applied again is another job.
  return {{"apiVersion", fmt::format("{}/{}", contract::api_group, contract::api_version)},
          {"kind", "TrainingJob"},
          {"metadata",
           {{"name", job.metadata.name},
            {"namespace", job.metadata.name_space},
            {"uid", job.metadata.uid},
            {"resourceVersion", job.metadata.resource_version}}},
          {"status", api::to_json(status)}};
}

}  // namespace

Result<bool> Executor::are_gone(const api::TrainingJob& job, const std::vector<std::string>& pods) {
  std::atomic<bool> are_gone{true};
  SharedCalls questions{pods.size(),
                        [&](std::size_t index) {
                          return is_gone(job, pods[index]).map([&](bool is_gone) {
                            if (!is_gone) are_gone = false;
                          });
                        },
                        [](const Error&) { return true; }};
  {
    const auto threads = std::min(pods.size(), static_cast<std::size_t>(std::max(1, options_.pod_calls_at_once_max)));
    std::vector<std::jthread> helpers;
    while (helpers.size() + 1 < threads) helpers.emplace_back([&] { questions.make_all(); });
    questions.make_all();
  }
  TRY(questions.outcome());
  return are_gone.load();
}

Result<bool> Executor::is_gone(const api::TrainingJob& job, const std::string& name) {
  const auto object = api_.get(kube::pods, job.metadata.name_space, name);
  if (!object && object.error().kind == ErrorKind::not_found) return true;
  TRY(object);
  auto pod = TRY(resource::parse_pod(*object));
  if (!manifest::is_controlled_by(pod.metadata, job)) return true;
  if (is_labelled(pod.metadata)) {
    logging::warn("pod was missing from the cache", {{"job", full_name(job)}, {"pod", name}});
    caches_.pods.put(std::move(pod));
    return false;
  }
  // Deleted before the status is written, because afterwards nothing would lead to this pod.
  return remove_unlabelled(job, kube::pods, pod.metadata).map([] { return true; });
}

Result<void> Executor::write_status(const api::TrainingJob& job, const api::TrainingJobStatus& status) {
  auto written = put_status(job, status);
  if (written || written.error().kind != ErrorKind::invalid) return written;
  // A text that the server refuses must not hold up decisions.
  logging::warn("status refused: only decisions and counters are written",
                {{"job", full_name(job)}, {"error", written.error().message}});
  return put_status(job, plan::status_despite_refusal(status, job.status, written.error().message, clock_.now()));
}

Result<void> Executor::put_status(const api::TrainingJob& job, const api::TrainingJobStatus& status) {
  const auto reply = api_.update_status(kube::training_jobs, job.metadata.name_space, status_update(job, status));
  if (!reply) {
    if (reply.error().kind == ErrorKind::conflict) {
      TRY(reread(job));
    }
    if (reply.error().kind == ErrorKind::not_found) caches_.jobs.erase(key_of(job.metadata), job.metadata.uid);
    return tl::unexpected(reply.error());
  }
  auto stored = TRY(api::parse_training_job(*reply));
  memory_.note_write(key_of(job.metadata), job.metadata.uid, stored.metadata.resource_version, clock_.now());
  if (job.status.phase != status.phase || job.status.attempt != status.attempt) {
    logging::info("job moved on", {{"job", full_name(job)},
                                   {"phase", to_string(status.phase)},
                                   {"attempt", status.attempt},
                                   {"reason", status.reason},
                                   {"detail", status.message}});
  }
  caches_.jobs.put(std::move(stored));
  return {};
}

Result<void> Executor::reread(const api::TrainingJob& job) {
  const auto object = api_.get(kube::training_jobs, job.metadata.name_space, job.metadata.name);
  if (!object) {
    if (object.error().kind == ErrorKind::not_found) caches_.jobs.erase(key_of(job.metadata), job.metadata.uid);
    return tl::unexpected(object.error());
  }
  auto stored = TRY(api::parse_training_job(*object));
  caches_.jobs.put(std::move(stored));
  return {};
}

Result<void> Executor::act(const api::TrainingJob& job, const std::vector<plan::Action>& actions) {
  std::vector<const plan::CreatePod*> creates;
  std::vector<const plan::DeletePod*> deletes;
  const plan::SelectPods* selection = nullptr;
  std::vector<const plan::Action*> conclusions;
  Result<void> created;
  for (const plan::Action& action : actions) {
    if (const auto* create = std::get_if<plan::CreatePod>(&action)) {
      creates.push_back(create);
    } else if (const auto* deletion = std::get_if<plan::DeletePod>(&action)) {
      deletes.push_back(deletion);
    } else if (const auto* select = std::get_if<plan::SelectPods>(&action)) {
      selection = select;
    } else if (!is_preparation(action)) {
      conclusions.push_back(&action);
    } else if (created) {
      created = prepare(job, action);
    }
  }
  if (!created) {
    creates.clear();
    selection = nullptr;
  }
  PodOutcomes pods = change_pods(job, creates, deletes, selection);
  if (created) created = std::move(pods.created);
  const Result<void> noted = created ? Result<void>{} : note_failure(job, created.error());
  if (!pods.deleted) return noted ? pods.deleted : tl::unexpected(joined(noted.error(), pods.deleted.error()));
  if (!created) return noted;
  for (const plan::Action* action : conclusions) {
    TRY(conclude(job, *action));
  }
  memory_.note_no_failure(key_of(job.metadata), job.metadata.uid);
  return {};
}

Result<void> Executor::prepare(const api::TrainingJob& job, const plan::Action& action) {
  if (const auto* check = std::get_if<plan::CheckPod>(&action)) return check_pod(job, *check);
  if (std::holds_alternative<plan::DeselectPods>(action)) return select_pods(job, 0);
  const auto& service = std::get<plan::CreateService>(action).service;
  return create(job, kube::services, service, caches_.services, resource::parse_service);
}

Result<void> Executor::check_pod(const api::TrainingJob& job, const plan::CheckPod& action) {
  TRY(api_.create(kube::pods, job.metadata.name_space, action.pod, {.is_dry_run = true, .is_strict = true}));
  memory_.note_acceptance(key_of(job.metadata), job.metadata.uid, job.metadata.generation);
  return {};
}

template <typename T, typename Parse>
Result<void> Executor::create(const api::TrainingJob& job, const kube::ResourceType& type, const nlohmann::json& object,
                              control::ObjectCache<T>& cache, Parse parse) {
  // Strict, because a template that was edited after the first attempt began has passed no dry run.
  auto reply = api_.create(type, job.metadata.name_space, object, {.is_strict = true});
  const bool existed = !reply && reply.error().kind == ErrorKind::already_exists;
  if (existed) {
    // We may have created it ourselves, and the reply was lost.
    reply = api_.get(type, job.metadata.name_space, object.at("metadata").at("name").get<std::string>());
  }
  TRY(reply);
  auto stored = TRY(parse(*reply));
  const api::Metadata metadata = stored.metadata;
  if (!manifest::is_controlled_by(metadata, job)) {
    return fail(ErrorKind::already_exists,
                fmt::format("{} {} exists and belongs to somebody else: delete it, or give the job another name",
                            type.kind, metadata.name));
  }
  if (memory_.recall(key_of(job.metadata), job.metadata.uid).foreign_pods.contains(metadata.uid)) {
    return fail(ErrorKind::already_exists,
                fmt::format("{} {} is not the operator's and has a name that the job needs: delete it", type.kind,
                            metadata.name));
  }
  if (!is_labelled(metadata)) {
    TRY(remove_unlabelled(job, type, metadata));
    return fail(ErrorKind::unavailable, fmt::format("{} {} lost its label {} and is being deleted", type.kind,
                                                    metadata.name, contract::label_job));
  }
  if (!cache.put(std::move(stored))) {
    return fail(ErrorKind::unavailable,
                fmt::format("{} {} was reported as deleted and still exists", type.kind, metadata.name));
  }
  memory_.note_creation(key_of(job.metadata), job.metadata.uid);
  if (options_.on_creation) options_.on_creation(key_of(job.metadata));
  return {};
}

Result<void> Executor::create_pod(const api::TrainingJob& job, const plan::CreatePod& action) {
  return create(job, kube::pods, action.pod(), caches_.pods, resource::parse_pod);
}

Executor::PodOutcomes Executor::change_pods(const api::TrainingJob& job,
                                            const std::vector<const plan::CreatePod*>& creates,
                                            const std::vector<const plan::DeletePod*>& deletes,
                                            const plan::SelectPods* selection) {
  std::atomic<std::size_t> left{creates.size()};
  SharedCalls creation{creates.size(),
                       [&](std::size_t index) -> Result<void> {
                         TRY(create_pod(job, *creates[index]));
                         // The thread that created the last pod goes on, so that no delete holds the selection up.
                         return --left == 0 && selection != nullptr ? select_pods(job, selection->attempt)
                                                                    : Result<void>{};
                       },
                       [](const Error&) { return true; }};
  Result<void> selected;
  if (creates.empty() && selection != nullptr) selected = select_pods(job, selection->attempt);
  // If one pod cannot be deleted, the others still are.
  SharedCalls deletion{deletes.size(), [&](std::size_t index) { return remove_pod(job, *deletes[index]); },
                       [](const Error& error) { return is_transient(error.kind); }};
  const auto threads =
      std::min(creates.size() + deletes.size(), static_cast<std::size_t>(std::max(1, options_.pod_calls_at_once_max)));
  {
    std::vector<std::jthread> helpers;
    // Deletes that hang must not hold up creates, nor the reverse. One thread that only deletes is enough: once all
    // pods are created, the other threads delete too.
    if (threads > 1 && !deletes.empty()) helpers.emplace_back([&] { deletion.make_all(); });
    // Rank 0's pod comes first, because the other ranks look for it as soon as they run.
    creation.make_next();
    const auto work = [&] {
      creation.make_all();
      deletion.make_all();
    };
    while (helpers.size() + 1 < threads) helpers.emplace_back(work);
    work();
  }
  return {.created = selected ? creation.outcome() : selected, .deleted = deletion.outcome()};
}

Result<void> Executor::select_pods(const api::TrainingJob& job, std::int64_t attempt) {
  const control::ObjectKey key{.name_space = job.metadata.name_space, .name = manifest::service_name(job)};
  const auto service = caches_.services.find(key);
  if (!service || !manifest::is_service_of(*service, job)) return {};
  const auto reply = api_.patch(
      kube::services, key.name_space, key.name, kube::PatchType::merge,
      {{"metadata", {{"uid", service->metadata.uid}}}, {"spec", {{"selector", manifest::pod_selector(job, attempt)}}}});
  if (!reply && reply.error().kind == ErrorKind::not_found) caches_.services.erase(key, service->metadata.uid);
  TRY(reply);
  auto stored = TRY(resource::parse_service(*reply));
  caches_.services.put(std::move(stored));
  // A refusal of this patch would be shown for good otherwise: no creation follows that could succeed.
  memory_.note_creation(key_of(job.metadata), job.metadata.uid);
  return {};
}

Result<void> Executor::remove_unlabelled(const api::TrainingJob& job, const kube::ResourceType& type,
                                         const api::Metadata& metadata) {
  logging::warn("an object of the job lost its label and is deleted",
                {{"job", full_name(job)}, {"resource", type.plural}, {"name", metadata.name}});
  TRY(remove(type, key_of(metadata), metadata.uid));
  return {};
}

Result<void> Executor::conclude(const api::TrainingJob& job, const plan::Action& action) {
  if (const auto* service = std::get_if<plan::DeleteService>(&action)) return remove_service(job, *service);
  if (const auto* deletion = std::get_if<plan::DeleteJob>(&action)) return remove_job(job, *deletion);
  if (std::holds_alternative<plan::RemoveFinalizer>(action)) return set_finalizer(job, false);
  const auto held = add_finalizer(job);
  return held ? held : note_failure(job, held.error());
}

Result<bool> Executor::remove(const kube::ResourceType& type, const control::ObjectKey& key, const std::string& uid) {
  const auto removed = api_.remove(type, key.name_space, key.name, {.uid = uid});
  if (removed) return true;
  if (removed.error().kind == ErrorKind::not_found) return false;
  if (removed.error().kind != ErrorKind::conflict) return tl::unexpected(removed.error());
  // Another object may have the name by now, which means that ours is gone.
  const auto present = api_.get(type, key.name_space, key.name);
  if (!present && present.error().kind == ErrorKind::not_found) return false;
  TRY(present);
  if (present->value("/metadata/uid"_json_pointer, "") != uid) return false;
  return tl::unexpected(removed.error());
}

Result<void> Executor::remove_pod(const api::TrainingJob& job, const plan::DeletePod& action) {
  const control::ObjectKey key{.name_space = job.metadata.name_space, .name = action.name};
  const auto is_marked = TRY(remove(kube::pods, key, action.uid));
  if (!is_marked) caches_.pods.erase(key, action.uid);
  // Marks the cached pod as being deleted until the watch brings its new state.
  if (auto pod = caches_.pods.find(key); pod && pod->metadata.uid == action.uid && !pod->metadata.deletion_time) {
    pod->metadata.deletion_time = clock_.now();
    caches_.pods.put(std::move(*pod));
  }
  return {};
}

Result<void> Executor::remove_service(const api::TrainingJob& job, const plan::DeleteService& action) {
  const control::ObjectKey key{.name_space = job.metadata.name_space, .name = action.name};
  TRY(remove(kube::services, key, action.uid));
  caches_.services.erase(key, action.uid);
  return {};
}

Result<void> Executor::remove_job(const api::TrainingJob& job, const plan::DeleteJob& action) {
  const control::ObjectKey key = key_of(job.metadata);
  TRY(remove(kube::training_jobs, key, action.uid));
  if (!job.metadata.finalizers.empty()) {
    // The job stays until its finalizers are removed, and is marked as being deleted.
    const auto marked = reread(job);
    return marked || marked.error().kind == ErrorKind::not_found ? Result<void>{} : marked;
  }
  caches_.jobs.erase(key, action.uid);
  return {};
}

Result<void> Executor::set_finalizer(const api::TrainingJob& job, bool is_wanted) {
  // Reads the version from the cache, because a status written just now has changed it.
  const auto current = caches_.jobs.find(key_of(job.metadata));
  if (!current || current->metadata.uid != job.metadata.uid) return {};
  std::vector<std::string> finalizers = current->metadata.finalizers;
  std::erase(finalizers, plan::clean_up_finalizer);
  if (is_wanted) finalizers.emplace_back(plan::clean_up_finalizer);
  const auto reply = api_.patch(kube::training_jobs, job.metadata.name_space, job.metadata.name, kube::PatchType::merge,
                                {{"metadata",
                                  {{"uid", job.metadata.uid},
                                   {"resourceVersion", current->metadata.resource_version},
                                   {"finalizers", finalizers}}}});
  if (!reply) {
    const ErrorKind kind = reply.error().kind;
    const bool is_outdated = kind == ErrorKind::conflict || kind == ErrorKind::not_found || kind == ErrorKind::invalid;
    if (!is_outdated) return tl::unexpected(reply.error());
    // Invalid means that the job is being deleted by now and accepts no new finalizer.
    if (auto reread_job = reread(job); !reread_job && reread_job.error().kind != ErrorKind::not_found) {
      return reread_job;
    }
    return kind == ErrorKind::invalid ? fail(ErrorKind::conflict, reply.error().message) : Result<void>{};
  }
  auto stored = TRY(api::parse_training_job(*reply));
  memory_.note_version(key_of(job.metadata), job.metadata.uid, stored.metadata.resource_version);
  caches_.jobs.put(std::move(stored));
  return {};
}

Result<void> Executor::add_finalizer(const api::TrainingJob& job) {
  return set_finalizer(job, true).map([&] { memory_.note_creation(key_of(job.metadata), job.metadata.uid); });
}

Result<void> Executor::note_failure(const api::TrainingJob& job, const Error& error) {
  const control::ObjectKey key = key_of(job.metadata);
  const bool is_refusal =
      error.kind == ErrorKind::forbidden || error.kind == ErrorKind::invalid || error.kind == ErrorKind::already_exists;
  if (!is_refusal) {
    memory_.note_failure(key, job.metadata.uid, error, clock_.now());
    return tl::unexpected(error);
  }
  logging::warn("create refused", {{"job", full_name(job)}, {"error", error.message}});
  memory_.note_refusal(key, job.metadata.uid, error, clock_.now());
  return {};
}

void Executor::record_events(const api::TrainingJob& job, const std::vector<plan::Event>& events) {
  for (const plan::Event& event : events) {
    const auto recorded = record_event(api_, job, event, options_.instance, clock_.now());
    if (!recorded) {
      logging::warn("event not written",
                    {{"job", full_name(job)}, {"reason", event.reason}, {"error", recorded.error().message}});
    }
  }
}

}  // namespace trainyard::reconcile
