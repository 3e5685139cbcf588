#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "local/memory_api.hpp"
#include "operator/reconcile/reconciler.hpp"
#include "tests/builders/a_job.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/fake_kubelet.hpp"
#include "tests/fakes/faulty_api.hpp"

namespace trainyard::simulation {

using nlohmann::json;

/// Reports of rank 0 that a test makes up.
class FakeProgress final : public reconcile::ProgressSource {
 public:
  [[nodiscard]] std::optional<plan::ProgressReport> last_report(std::string_view job_uid) const override;
  void set(const std::string& job_uid, plan::ProgressReport report);

 private:
  std::map<std::string, plan::ProgressReport, std::less<>> reports_;
};

struct Options {
  /// How many pods the operator creates at once; 1 makes every run of the same story send the same calls.
  int creates_at_once_max = 1;
  /// 0: caches follow the server at once. Otherwise the seed by which they lag behind, each kind for itself.
  std::uint64_t lag_seed = 0;
};

/// A whole cluster in one thread: API server, scheduler and kubelet, and the operator, which can be killed at any call.
/// Time moves only when nothing is left to do.
class Simulation {
 public:
  explicit Simulation(const Options& options = {});

  // ---- What a user does
  void apply(const json& manifest);
  /// Changes fields of the spec by a merge patch.
  void edit(const json& spec);
  void delete_job();
  void delete_pod(std::int64_t attempt, std::int64_t rank);

  // ---- What happens in the cluster
  void end(std::int64_t attempt, std::int64_t rank, int exit_code, const std::string& message = {});
  /// Every pod of the attempt ends with 0.
  void finish(std::int64_t attempt);
  void vanish(std::int64_t attempt, std::int64_t rank);
  void lose_node(std::int64_t rank);
  void report(plan::ProgressReport report);

  /// Lets operator and cluster work, and time pass where both wait, until `holds`. False after `limit` of simulated
  /// time.
  [[nodiscard]] bool run_until(const std::function<bool()>& holds,
                               std::chrono::seconds limit = std::chrono::seconds{600});
  /// The same for as long as anybody has anything to do at this instant.
  void settle();
  void pass(std::chrono::milliseconds duration);
  /// The process is gone and another one starts: caches are listed afresh, nothing else is known.
  void restart_operator();

  // ---- What can be seen
  [[nodiscard]] std::optional<resource::TrainingJob> job();
  [[nodiscard]] resource::TrainingJobStatus status();
  [[nodiscard]] bool is_phase(resource::Phase phase);
  /// "smoke-c0de-1-0 Running", sorted.
  [[nodiscard]] std::vector<std::string> pods();
  [[nodiscard]] std::vector<std::string> live_pods();
  [[nodiscard]] std::string pod_name(std::int64_t attempt, std::int64_t rank);
  /// Reasons of the job's events, sorted.
  [[nodiscard]] std::vector<std::string> events();
  /// Pods that were created twice under one name: there must be none.
  [[nodiscard]] std::vector<std::string> twins() const;
  /// Ends when a reconcile finds nothing to do any more: whether it ever does.
  [[nodiscard]] bool is_at_rest() const { return is_at_rest_; }

  fakes::FakeClock clock;
  local::MemoryApi api;
  fakes::FaultyApi faulty;
  fakes::FakeKubelet kubelet;

 private:
  template <typename T, typename Parse>
  void sync(const kube::ResourceType& type, control::ObjectCache<T>& cache, Parse parse, bool is_complete);
  void sync_caches(bool is_complete);
  bool work_once();

  const Options options_;
  std::mt19937_64 random_;
  control::ObjectKey key_{.name_space = "research", .name = "smoke"};
  std::string uid_;
  FakeProgress progress_;
  std::unique_ptr<reconcile::Caches> caches_;
  std::unique_ptr<reconcile::Reconciler> reconciler_;
  std::optional<std::chrono::milliseconds> requeue_after_;
  std::map<std::string_view, std::string> synced_versions_;
  bool is_at_rest_ = false;
};

}  // namespace trainyard::simulation
