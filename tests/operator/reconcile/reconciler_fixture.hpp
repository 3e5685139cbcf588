#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "local/memory_api.hpp"
#include "operator/manifest/names.hpp"
#include "operator/reconcile/observe.hpp"
#include "operator/reconcile/reconciler.hpp"
#include "tests/builders/a_job.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/faulty_api.hpp"

namespace trainyard::reconcile {

/// Returns the report that a test has set.
class FakeProgress final : public ProgressSource {
 public:
  std::optional<plan::ProgressReport> last_report(std::string_view) const override { return report; }
  std::optional<plan::ProgressReport> report;
};

/// The caches hold only what a test or the reconciler has put into them.
class ReconcilerTest : public testing::Test {
 protected:
  ReconcilerTest() { restart(); }

  local::MemoryApiOptions api_options() {
    return {.admission = [this, admit = local::training_job_admission()](const kube::ResourceType& type,
                                                                         const nlohmann::json& object,
                                                                         const nlohmann::json* before, bool is_strict) {
      return admit(type, object, before, is_strict).map([&](nlohmann::json admitted) {
        if (prune) prune(admitted);
        return admitted;
      });
    }};
  }
  void restart() {
    reconciler = std::make_unique<Reconciler>(faulty, clock, caches, progress,
                                              ReconcilerOptions{.settings = {.worker_image_cpu = "worker:cpu"}});
  }
  void apply(const builders::JobBuilder& job = builders::a_job()) {
    const nlohmann::json created = *api.create(kube::training_jobs, "research", job.manifest());
    caches.jobs.put(*api::parse_training_job(created));
  }
  /// Removes the job's label as `kubectl label` does, and then the object from the cache, as the watch does.
  template <typename T>
  void take_label_off(const kube::ResourceType& type, control::ObjectCache<T>& cache, const std::string& name) {
    const nlohmann::json patch = {{"metadata", {{"labels", {{"trainyard.dev/job", nullptr}}}}}};
    const nlohmann::json object = *api.patch(type, "research", name, kube::PatchType::merge, patch);
    cache.erase({.name_space = "research", .name = name}, object.at("metadata").at("uid").get<std::string>());
  }
  /// From now on every create of a pod fails with `error`.
  void fail_pods(const Error& error) {
    faulty.set_schedule([error](const fakes::ApiCall& call) -> std::optional<fakes::Fault> {
      if (call.verb != "create" || call.plural != "pods" || call.is_dry_run) return std::nullopt;
      return fakes::Fault{.error = error};
    });
  }
  /// Reconciles until nothing is left to do at once.
  void work() {
    for (int turn = 0; turn < 20; ++turn) {
      const auto requeue = reconciler->reconcile(key);
      if (requeue && *requeue != std::chrono::milliseconds{0}) return;
    }
    FAIL() << "the work does not end";
  }
  /// Stores a pod or service which names the job as its controller, and returns it.
  nlohmann::json forged(const kube::ResourceType& type, const std::string& name_space, const std::string& name) {
    nlohmann::json object{{"metadata", manifest::owned_metadata(stored(), name)}};
    object["metadata"]["namespace"] = name_space;
    if (type == kube::pods)
      object["spec"]["containers"] = nlohmann::json::array({{{"name", "worker"}, {"image", "x"}}});
    return *api.create(type, name_space, object);
  }
  void forge_pod(const std::string& name_space, const std::string& name) {
    caches.pods.put(*resource::parse_pod(forged(kube::pods, name_space, name)));
  }
  void end_all_pods(std::int64_t attempt) {
    for (const std::int64_t rank : {0, 1}) {
      nlohmann::json ended = *api.get(kube::pods, "research", manifest::pod_name(stored(), attempt, rank));
      ended["status"] = {
          {"phase", "Succeeded"},
          {"containerStatuses",
           nlohmann::json::array({{{"name", "worker"}, {"state", {{"terminated", {{"exitCode", 0}}}}}}})}};
      caches.pods.put(*resource::parse_pod(*api.update_status(kube::pods, "research", ended)));
    }
  }
  api::TrainingJob stored() { return *api::parse_training_job(*api.get(kube::training_jobs, "research", "smoke")); }
  std::vector<std::string> verbs_since(std::size_t begin) {
    std::vector<std::string> verbs;
    const auto done = faulty.done();
    for (std::size_t index = begin; index < done.size(); ++index)
      verbs.push_back(done[index].verb + " " + done[index].plural);
    return verbs;
  }

  const control::ObjectKey key{.name_space = "research", .name = "smoke"};
  fakes::FakeClock clock;
  /// Drops from jobs the fields that a server with another CRD would drop.
  std::function<void(nlohmann::json& stored)> prune;
  local::MemoryApi api{clock, api_options()};
  fakes::FaultyApi faulty{api};
  FakeProgress progress;
  Caches caches;
  std::unique_ptr<Reconciler> reconciler;
};

}  // namespace trainyard::reconcile
