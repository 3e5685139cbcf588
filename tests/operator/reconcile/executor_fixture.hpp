#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "local/memory_api.hpp"
#include "operator/manifest/names.hpp"
#include "operator/manifest/objects.hpp"
#include "operator/reconcile/executor.hpp"
#include "tests/builders/a_job.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/faulty_api.hpp"

namespace trainyard::reconcile {

/// A job with three pods on the server.
class ExecutorTest : public testing::Test {
 protected:
  ExecutorTest() {
    job = *api::parse_training_job(*api.create(kube::training_jobs, "research", builders::a_job().manifest()));
    job.status.attempt = 1;
    for (std::int64_t index = 0; index < 3; ++index) add_pod(index);
  }
  void add_pod(std::int64_t index) {
    caches.pods.put(*resource::parse_pod(*api.create(kube::pods, "research", pod_of(index))));
  }
  nlohmann::json pod_of(std::int64_t index) const {
    return {{"apiVersion", "v1"},
            {"kind", "Pod"},
            {"metadata",
             {{"name", manifest::pod_name(job, job.status.attempt, index)},
              {"labels", {{"trainyard.dev/job", job.metadata.name}}},
              {"ownerReferences", nlohmann::json::array({{{"apiVersion", "trainyard.dev/v1alpha1"},
                                                          {"kind", "TrainingJob"},
                                                          {"name", job.metadata.name},
                                                          {"uid", job.metadata.uid},
                                                          {"controller", true}}})}}},
            {"spec", {{"containers", nlohmann::json::array({{{"name", "worker"}, {"image", "worker:cpu"}}})}}}};
  }
  std::vector<plan::Action> delete_all_pods() const {
    std::vector<plan::Action> actions;
    for (const auto& pod : caches.pods.owned_by(job.metadata.uid))
      actions.emplace_back(plan::DeletePod{.name = pod.metadata.name, .uid = pod.metadata.uid});
    return actions;
  }
  plan::Action create(std::int64_t index) const {
    return plan::CreatePod{.pod = [this, index] { return pod_of(index); }};
  }
  /// Puts the job's service on the server, and into the cache.
  resource::Service add_service() {
    const nlohmann::json object = manifest::build_service(job);
    const auto service = *resource::parse_service(*api.create(kube::services, "research", object));
    caches.services.put(service);
    return service;
  }
  nlohmann::json selector_on_server() {
    return api.get(kube::services, "research", manifest::service_name(job))->at("spec").at("selector");
  }
  /// From now on every call for which `is_meant` is true fails with this error.
  void fail_where(const std::function<bool(const fakes::ApiCall&)>& is_meant, const Error& error) {
    faulty.set_schedule([=](const fakes::ApiCall& call) -> std::optional<fakes::Fault> {
      return is_meant(call) ? std::optional{fakes::Fault{.error = error}} : std::nullopt;
    });
  }

  const control::ObjectKey job_key{.name_space = "research", .name = "smoke"};
  fakes::FakeClock clock;
  local::MemoryApi api{clock};
  fakes::FaultyApi faulty{api};
  Caches caches;
  Memory memory;
  ReconcilerOptions options;
  Executor executor{faulty, clock, caches, memory, options};
  api::TrainingJob job;
};

}  // namespace trainyard::reconcile
