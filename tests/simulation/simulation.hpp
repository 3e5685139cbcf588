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
#include "operator/control/cache_sink.hpp"
#include "operator/control/key_schedule.hpp"
#include "operator/reconcile/reconciler.hpp"
#include "tests/builders/a_job.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/fake_kubelet.hpp"
#include "tests/fakes/faulty_api.hpp"

namespace trainyard::simulation {

using nlohmann::json;

/// Reports of rank 0 that a test sets.
class FakeProgress final : public reconcile::ProgressSource {
 public:
  [[nodiscard]] std::optional<plan::ProgressReport> last_report(std::string_view job_uid) const override;
  void set(const std::string& job_uid, plan::ProgressReport report);

 private:
  std::map<std::string, plan::ProgressReport, std::less<>> reports_;
};

/// The label of the objects that an intruder makes.
inline constexpr const char* intruder_label = "intruder";

struct Options {
  /// How many pods the operator creates at once; 1 makes every run of the same story send the same calls.
  int pod_calls_at_once_max = 1;
  /// 0: caches follow the server at once. Otherwise the seed of their lag, which differs by kind.
  std::uint64_t lag_seed = 0;
};

/// Brings one kind of object from the server into the operator's cache, as an informer does, but without a thread.
template <typename T>
class Feed {
 public:
  using Sink = control::CacheSink<T>;

  Feed(kube::Api& api, const kube::ResourceType& type, std::string label_selector, control::ObjectCache<T>& cache,
       typename Sink::Parse parse, typename Sink::OnChange on_change)
      : api_{api},
        type_{type},
        label_selector_{std::move(label_selector)},
        sink_{cache, "", std::move(parse), std::move(on_change)} {}

  /// Lists all objects, once at the start.
  void list();
  /// Delivers the changes since then, as a watch would.
  void follow();

 private:
  kube::Api& api_;
  const kube::ResourceType type_;
  const std::string label_selector_;
  Sink sink_;
  std::map<control::ObjectKey, json> known_;
  std::string version_;
};

/// A whole cluster in one thread: API server, scheduler and kubelet, and the operator, which can be killed at any call.
/// As in the real operator, a job is reconciled when something of it has changed, when a requeue is due, and at each
/// resync, and never otherwise. Time moves only when nothing is left to do.
class Simulation {
 public:
  explicit Simulation(const Options& options = {});
  ~Simulation();

  // ---- What a user does
  void apply(const json& manifest);
  /// Changes fields of the spec by a merge patch.
  void edit(const json& spec);
  void annotate(const std::string& name, const std::string& value);
  void delete_job();
  void delete_pod(std::int64_t attempt, std::int64_t rank);

  // ---- What happens in the cluster
  void end(std::int64_t attempt, std::int64_t rank, int exit_code, const std::string& message = {});
  void end_clean_up(int exit_code, const std::string& message = {});
  /// Ends every pod of the attempt with 0.
  void finish(std::int64_t attempt);
  void vanish(std::int64_t attempt, std::int64_t rank);
  void lose_node(std::int64_t rank);
  void report(plan::ProgressReport report);
  /// The report of another job's rank 0. The job exists.
  void report(const control::ObjectKey& job, plan::ProgressReport report);
  /// Calls `act` before each turn of the operator. It plays another user of the cluster.
  void set_intruder(std::function<void()> act) { intruder_ = std::move(act); }

  /// Runs operator and cluster until `holds`; time passes when both wait. False after `limit` of simulated time.
  [[nodiscard]] bool run_until(const std::function<bool()>& holds,
                               std::chrono::seconds limit = std::chrono::seconds{280});
  /// Runs operator and cluster until both have nothing to do at this instant.
  void settle();
  void pass(std::chrono::milliseconds duration);
  /// Ends the operator's process and starts another one, which knows nothing and lists all caches.
  void restart_operator();

  // ---- What can be seen
  [[nodiscard]] std::optional<api::TrainingJob> job();
  [[nodiscard]] api::TrainingJobStatus status();
  [[nodiscard]] bool is_phase(api::Phase phase);
  /// "smoke-c0de-1-0 Running", sorted. Those in the job's namespace that no intruder has made, without other jobs'.
  [[nodiscard]] std::vector<std::string> pods();
  [[nodiscard]] std::vector<std::string> live_pods();
  [[nodiscard]] std::string pod_name(std::int64_t attempt, std::int64_t rank);
  /// The name of the pod that removes a deleted job's checkpoints.
  [[nodiscard]] std::string clean_up_pod_name() const;
  [[nodiscard]] bool is_cleaning_up();
  [[nodiscard]] std::vector<std::string> services();  ///< Each with the attempt whose pods it selects.
  /// Reasons of the job's events, sorted.
  [[nodiscard]] std::vector<std::string> events();
  /// Pods of an attempt that were created twice under one name. There must be none.
  [[nodiscard]] std::vector<std::string> twins() const;
  /// Pods and services that the operator deleted and had not made. There must be none.
  [[nodiscard]] std::vector<std::string> foreign_deletes() const;
  /// Statuses that the server refused as invalid, of any job. There must be none.
  [[nodiscard]] std::vector<std::string> invalid_statuses() const;
  /// True when nothing was left to do at the last instant.
  [[nodiscard]] bool is_at_rest() const { return is_at_rest_; }
  /// True when the operator was busy without end at so many instants that the test can only fail: it then stops
  /// waiting.
  [[nodiscard]] bool is_given_up() const { return restless_instants_ >= restless_instants_max; }

  fakes::FakeClock clock;
  local::MemoryApi api;
  fakes::FaultyApi faulty;
  fakes::FakeKubelet kubelet;

 private:
  /// The operator's process, as far as it is killed with it.
  struct Process;

  void wake_job(const control::ObjectKey& job);
  void wake_owner(const api::Metadata& owned);
  bool work_once();
  /// Moves the time to the next instant at which operator or cluster may have something to do, at most to `end`.
  void advance(Time end);

  const Options options_;
  std::mt19937_64 random_;
  control::ObjectKey key_{.name_space = "research", .name = "smoke"};
  std::string uid_;
  FakeProgress progress_;
  std::unique_ptr<Process> process_;
  std::function<void()> intruder_;
  bool is_at_rest_ = false;
  static constexpr int restless_instants_max = 20;
  int restless_instants_ = 0;  // in a row
};

}  // namespace trainyard::simulation
