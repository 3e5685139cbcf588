// Measures the operator on a real control plane and prints one JSON object of samples; bench/line/run makes the table
// of it.
#include <fmt/format.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "common/check.hpp"
#include "operator/kube/http_api.hpp"
#include "operator/kube/kubeconfig.hpp"
#include "tests/builders/a_job.hpp"
#include "tests/cluster/control_plane.hpp"
#include "tests/integration/eventually.hpp"
#include "tests/integration/hand_kubelet.hpp"
#include "tests/integration/operator_process.hpp"

namespace trainyard {
namespace {

using integration::eventually;
using integration::HandKubelet;
using integration::OperatorProcess;
using kube::json;
using std::chrono::steady_clock;

constexpr int rounds = 5;
constexpr int pods_of_a_large_job = 64;

double seconds_between(steady_clock::time_point start, steady_clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

/// Notes when each pod of a namespace came, as a watch tells it.
class PodClock {
 public:
  PodClock(kube::Api& api, std::string name_space)
      : thread_{[this, &api, name_space = std::move(name_space)](const std::stop_token& stop) {
          const auto listed = api.list(kube::pods, {.name_space = name_space});
          check(listed.has_value(), "pods can be listed");
          static_cast<void>(api.watch(
              kube::pods,
              {.name_space = name_space,
               .label_selector = {},
               .field_selector = {},
               .resource_version = listed->resource_version},
              [this](const kube::WatchEvent& event) { note(event); }, stop));
        }} {}

  /// When the `count`-th pod of `job` was there.
  steady_clock::time_point wait_for(const std::string& job, std::size_t count) {
    std::unique_lock lock{mutex_};
    const bool has_come =
        changed_.wait_for(lock, std::chrono::seconds{120}, [&] { return came_[job].size() >= count; });
    check(has_come, "the operator makes the job's pods");
    return came_[job][count - 1];
  }

 private:
  void note(const kube::WatchEvent& event) {
    if (event.type != kube::WatchEventType::added) return;
    {
      const std::scoped_lock lock{mutex_};
      came_[event.object.at("metadata").at("labels").value("trainyard.dev/job", "")].push_back(steady_clock::now());
    }
    changed_.notify_all();
  }

  std::mutex mutex_;  // guards came_
  std::condition_variable changed_;
  std::map<std::string, std::vector<steady_clock::time_point>> came_;
  std::jthread thread_;
};

class Bench {
 public:
  explicit Bench(cluster::ControlPlane& control_plane) : control_plane_{control_plane} {
    auto config = kube::load_kubeconfig(control_plane.kubeconfig());
    check(config.has_value(), "the administrator's kubeconfig can be read");
    auto api = kube::HttpApi::make(*std::move(config));
    check(api.has_value(), "the API server can be reached");
    api_ = *std::move(api);
    auto name_space = control_plane.create_namespace("bench");
    check(name_space.has_value(), "a namespace can be made");
    name_space_ = *std::move(name_space);
    pod_clock_ = std::make_unique<PodClock>(*api_, name_space_);
  }

  /// Seconds from the leader's end to the first pod that the standby makes, for a job applied just after that end.
  std::vector<double> failover(const std::string& name, int signal) {
    std::vector<double> samples;
    auto leader = start();
    for (int round = 0; round < rounds; ++round) {
      check(eventually([&] { return leader->is_leader(); }), "one replica leads");
      auto standby = start();
      // Long enough for the standby to have seen the lease, and anywhere between two renewals.
      std::this_thread::sleep_for(std::chrono::milliseconds{2'000 + std::uniform_int_distribution{0, 1'000}(random_)});
      const auto killed_at = steady_clock::now();
      leader->signal(signal);
      const std::string job = fmt::format("{}-{}", name, round);
      apply(job, 1);
      samples.push_back(seconds_between(killed_at, pod_clock_->wait_for(job, 1)));
      leader->wait();
      leader = std::move(standby);
    }
    return samples;
  }

  struct Large {
    std::vector<double> seconds;
    std::vector<double> peak_megabytes;
  };
  /// From before a job is applied until its last pod is there, and the most memory the operator had by the time all of
  /// them run.
  Large large_jobs() {
    Large samples;
    for (int round = 0; round < rounds; ++round) {
      const auto only = start();
      check(eventually([&] { return only->is_leader(); }), "the replica leads");
      const HandKubelet kubelet{*api_, name_space_};
      const std::string job = fmt::format("large-{}", round);
      const auto applied_at = steady_clock::now();
      apply(job, pods_of_a_large_job);
      samples.seconds.push_back(seconds_between(applied_at, pod_clock_->wait_for(job, pods_of_a_large_job)));
      check(eventually([&] {
              const auto object = api_->get(kube::training_jobs, name_space_, job);
              return object && object->value("/status/phase"_json_pointer, "") == "Running";
            }),
            "the job runs");
      samples.peak_megabytes.push_back(static_cast<double>(only->peak_resident_bytes()) / 1e6);
      check(api_->remove(kube::training_jobs, name_space_, job).has_value(), "the job can be deleted");
      check(eventually([&] { return kubelet.pods().size() < static_cast<std::size_t>(pods_of_a_large_job); }),
            "its pods go");
    }
    return samples;
  }

 private:
  std::unique_ptr<OperatorProcess> start() {
    auto started = OperatorProcess::start(control_plane_.kubeconfig(), name_space_);
    check(started.has_value(), "the operator can be started");
    return *std::move(started);
  }

  void apply(const std::string& job, int replicas) {
    json manifest = builders::a_job().named(job).replicas(replicas).without_training().container().manifest();
    manifest["metadata"]["namespace"] = name_space_;
    check(api_->create(kube::training_jobs, name_space_, manifest).has_value(), "a job can be applied");
  }

  cluster::ControlPlane& control_plane_;
  std::unique_ptr<kube::HttpApi> api_;
  std::string name_space_;
  std::unique_ptr<PodClock> pod_clock_;
  std::mt19937 random_{1};
};

int run() {
  const auto control_plane = cluster::ControlPlane::start();
  if (!control_plane) {
    std::cerr << "error: " << control_plane.error().message << '\n';
    return 1;
  }
  Bench bench{**control_plane};
  json samples;
  samples["killed_seconds"] = bench.failover("killed", SIGKILL);
  samples["stopped_seconds"] = bench.failover("stopped", SIGTERM);
  const Bench::Large large = bench.large_jobs();
  samples["large_job_seconds"] = large.seconds;
  samples["peak_megabytes"] = large.peak_megabytes;
  std::cout << samples << '\n';
  return 0;
}

}  // namespace
}  // namespace trainyard

int main() {
  return trainyard::run();
}
