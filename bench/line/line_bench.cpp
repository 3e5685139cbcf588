// Measures the operator on a real control plane and prints one JSON object of samples, from which bench/line/run makes
// the table. Arguments: failover, losses, memory; all of them when none is given.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <mutex>
#include <random>
#include <sstream>
#include <thread>

#include "common/check.hpp"
#include "operator/kube/config_sources.hpp"
#include "operator/kube/http_api.hpp"
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
constexpr int loss_rounds = 3;
constexpr int pods_of_a_large_job = 64;

double seconds_between(steady_clock::time_point start, steady_clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

using ProcessorSeconds = std::map<std::string, double>;

/// The processor time that this process and its descendants have used, by the names of their programs.
ProcessorSeconds processor_seconds() {
  struct Process {
    std::string name;
    pid_t parent = 0;
    double seconds = 0.0;
  };
  std::map<pid_t, Process> processes;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc"}) {
    const std::string number = entry.path().filename();
    if (number.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file{entry.path() / "stat"};
    const std::string text{std::istreambuf_iterator<char>{file}, {}};
    const std::size_t begin = text.find('('), end = text.rfind(')');
    if (end == std::string::npos) continue;  // It has ended meanwhile.
    // Source: proc_pid_stat(5). After the name come the state, the parent, nine more fields, utime and stime.
    std::istringstream fields{text.substr(end + 1)};
    std::string state, ignored;
    Process process{.name = text.substr(begin + 1, end - begin - 1)};
    fields >> state >> process.parent;
    for (int field = 0; field < 9; ++field) fields >> ignored;
    double user = 0.0, system = 0.0;
    fields >> user >> system;
    process.seconds = (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
    processes[std::stoi(number)] = process;
  }
  ProcessorSeconds seconds;
  for (const auto& [pid, process] : processes) {
    pid_t ancestor = pid;
    while (ancestor != ::getpid() && processes.contains(ancestor)) ancestor = processes.at(ancestor).parent;
    if (ancestor == ::getpid()) seconds[process.name] += process.seconds;
  }
  return seconds;
}

/// Calls `note`, on its own thread, with each object of a namespace that is created or changed from now on.
class Follower {
 public:
  using Note = std::function<void(kube::WatchEventType, const json&)>;

  /// `api` must outlive this object.
  Follower(kube::Api& api, const kube::ResourceType& type, std::string name_space, Note note)
      : thread_{[&api, type, name_space = std::move(name_space), note = std::move(note)](const std::stop_token& stop) {
          // The server refuses to watch a definition that was installed just now.
          Result<kube::ListPage> listed;
          check(eventually([&] {
                  listed = api.list(type, {.name_space = name_space});
                  return listed.has_value();
                }),
                "objects can be listed");
          kube::WatchOptions options{.name_space = name_space,
                                     .label_selector = {},
                                     .field_selector = {},
                                     .resource_version = listed->resource_version};
          // The server ends a watch after some minutes.
          while (!stop.stop_requested()) {
            const auto ended = api.watch(
                type, options,
                [&](const kube::WatchEvent& event) {
                  options.resource_version = event.object.at("metadata").at("resourceVersion");
                  const bool is_there =
                      event.type == kube::WatchEventType::added || event.type == kube::WatchEventType::modified;
                  if (is_there) note(event.type, event.object);
                },
                stop);
            check(ended.has_value() || stop.stop_requested(), "the watch goes on where it ended");
          }
        }} {}

 private:
  std::jthread thread_;
};

/// Notes when a watch first shows each pod of a namespace.
class PodClock {
 public:
  PodClock(kube::Api& api, std::string name_space)
      : follower_{api, kube::pods, std::move(name_space),
                  [this](kube::WatchEventType type, const json& pod) { note(type, pod); }} {}

  /// When `job` had `count` pods.
  steady_clock::time_point wait_for(const std::string& job, std::size_t count) {
    std::unique_lock lock{mutex_};
    const bool has_come =
        changed_.wait_for(lock, std::chrono::seconds{600}, [&] { return came_[job].size() >= count; });
    check(has_come, "the operator makes the job's pods");
    return came_[job][count - 1];
  }

 private:
  void note(kube::WatchEventType type, const json& pod) {
    if (type != kube::WatchEventType::added) return;
    {
      const std::scoped_lock lock{mutex_};
      came_[pod.at("metadata").at("labels").value("trainyard.dev/job", "")].push_back(steady_clock::now());
    }
    changed_.notify_all();
  }

  std::mutex mutex_;  // guards came_
  std::condition_variable changed_;
  std::map<std::string, std::vector<steady_clock::time_point>> came_;
  Follower follower_;
};

/// Notes when a watch first shows each attempt in the status of each job of a namespace.
class AttemptClock {
 public:
  AttemptClock(kube::Api& api, std::string name_space)
      : follower_{api, kube::training_jobs, std::move(name_space),
                  [this](kube::WatchEventType, const json& job) { note(job); }} {}

  steady_clock::time_point wait_for(const std::string& job, std::int64_t attempt) {
    std::unique_lock lock{mutex_};
    const bool is_told = changed_.wait_for(lock, std::chrono::seconds{120}, [&] {
      return begun_.contains(std::pair{job, attempt});
    });
    check(is_told, "the operator begins the attempt");
    return begun_.at(std::pair{job, attempt});
  }

 private:
  void note(const json& job) {
    const std::string name = job.at("metadata").at("name");
    const std::int64_t attempt = job.value("/status/attempt"_json_pointer, std::int64_t{0});
    {
      const std::scoped_lock lock{mutex_};
      begun_.try_emplace(std::pair{name, attempt}, steady_clock::now());
    }
    changed_.notify_all();
  }

  std::mutex mutex_;  // guards begun_
  std::condition_variable changed_;
  std::map<std::pair<std::string, std::int64_t>, steady_clock::time_point> begun_;
  Follower follower_;
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
    attempt_clock_ = std::make_unique<AttemptClock>(*api_, name_space_);
  }

  /// Seconds from the leader's end to the first pod that the standby creates, for a job applied just after that end.
  std::vector<double> failover(const std::string& name, int signal) {
    std::vector<double> samples;
    auto leader = start();
    for (int round = 0; round < rounds; ++round) {
      check(eventually([&] { return leader->is_leader(); }), "one replica leads");
      auto standby = start();
      // Long enough for the standby to see the lease; the end is at a random time between two renewals.
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
  /// The time from before a job is applied until its last pod exists, and the operator's peak memory until all pods
  /// run.
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

  struct Losses {
    std::vector<double> created_seconds;   ///< From the first attempt's decision to the last pod.
    std::vector<double> first_seconds;     ///< From the decision on the loss to the first pod of the next attempt.
    std::vector<double> replaced_seconds;  ///< From the decision on the loss to the last pod of the next attempt.
    /// Processor time by program meanwhile, of each round: from the job's creation, and from the loss of the pod.
    std::map<std::string, std::vector<double>> created_by, replaced_by;
  };
  /// Removes a pod of a job of `pods` pods once all exist. No kubelet runs them.
  Losses losses(int pods) {
    Losses samples;
    const auto count = static_cast<std::size_t>(pods);
    for (int round = 0; round < loss_rounds; ++round) {
      const auto only = start();
      const std::string job = fmt::format("loss-{}-{}", pods, round);
      wait_until_at_rest();
      const ProcessorSeconds before_creation = processor_seconds();
      apply(job, pods);
      const auto created = pod_clock_->wait_for(job, count);
      add_difference(samples.created_by, before_creation, processor_seconds());
      samples.created_seconds.push_back(seconds_between(attempt_clock_->wait_for(job, 1), created));
      wait_until_formed(job);
      const auto lost = api_->list(kube::pods, {.name_space = name_space_,
                                                .label_selector = "trainyard.dev/job=" + job,
                                                .field_selector = {},
                                                .resource_version = {},
                                                .continue_token = {},
                                                .limit = 1});
      check(lost.has_value() && !lost->items.empty(), "a pod can be found");
      const std::string pod = lost->items.front().at("metadata").at("name");
      wait_until_at_rest();
      const ProcessorSeconds before_loss = processor_seconds();
      check(api_->remove(kube::pods, name_space_, pod, {.uid = {}, .grace_period_seconds = 0}).has_value(),
            "a pod can be deleted");
      const auto decided = attempt_clock_->wait_for(job, 2);
      samples.first_seconds.push_back(seconds_between(decided, pod_clock_->wait_for(job, count + 1)));
      samples.replaced_seconds.push_back(seconds_between(decided, pod_clock_->wait_for(job, 2 * count)));
      add_difference(samples.replaced_by, before_loss, processor_seconds());
      check(api_->remove(kube::training_jobs, name_space_, job).has_value(), "the job can be deleted");
      remove_pods();
    }
    return samples;
  }

  struct Memory {
    double megabytes = 0;       ///< Some seconds after the operator listed every object.
    double peak_megabytes = 0;  ///< The peak until then.
  };
  /// The memory of a leader that starts when `pods` pods exist, in jobs of at most 2,000.
  Memory memory_with(int pods) {
    {
      const auto maker = start();
      for (; pods_made_ < pods; ++jobs_made_) {
        const int count = std::min(pods - pods_made_, 2'000);
        const std::string job = fmt::format("memory-{}", jobs_made_);
        apply(job, count);
        static_cast<void>(pod_clock_->wait_for(job, static_cast<std::size_t>(count)));
        wait_until_formed(job);
        pods_made_ += count;
      }
    }
    const auto only = start();
    check(eventually([&] { return only->is_leader(); }), "the replica leads");
    std::this_thread::sleep_for(std::chrono::seconds{10});
    return {.megabytes = static_cast<double>(only->resident_bytes()) / 1e6,
            .peak_megabytes = static_cast<double>(only->peak_resident_bytes()) / 1e6};
  }

 private:
  static void add_difference(std::map<std::string, std::vector<double>>& samples, const ProcessorSeconds& before,
                             const ProcessorSeconds& after) {
    for (const auto& [name, seconds] : after) {
      const auto found = before.find(name);
      samples[name].push_back(seconds - (found == before.end() ? 0.0 : found->second));
    }
  }

  void wait_until_formed(const std::string& job) {
    check(eventually([&] {
            const auto object = api_->get(kube::training_jobs, name_space_, job);
            return object && object->value("/status/formed"_json_pointer, false);
          }),
          "the job is formed");
  }

  /// Waits until the control plane has done what follows from earlier changes: its controllers are still busy with a
  /// job's pods when all of them exist, and would share the processors with what is measured next.
  static void wait_until_at_rest() {
    constexpr double busy_share_max = 0.1;
    constexpr int waits_max = 120;
    const auto total = [] {
      double seconds = 0.0;
      for (const auto& [name, of_program] : processor_seconds()) seconds += of_program;
      return seconds;
    };
    double before = total();
    for (int waits = 0; waits < waits_max; ++waits) {
      std::this_thread::sleep_for(std::chrono::seconds{1});
      const double now = total();
      if (now - before < busy_share_max) return;
      before = now;
    }
    check(false, "the control plane comes to rest within two minutes");
  }

  /// Deletes them at once; the garbage collector would do it slowly, during the next round.
  void remove_pods() {
    const std::string path = fmt::format("/api/v1/namespaces/{}/pods", name_space_);
    check(eventually([&] {
            const auto left = api_->list(kube::pods, {.name_space = name_space_,
                                                      .label_selector = {},
                                                      .field_selector = {},
                                                      .resource_version = {},
                                                      .continue_token = {},
                                                      .limit = 1});
            if (left && left->items.empty()) return true;
            static_cast<void>(control_plane_.kubectl({"delete", "--raw", path}));
            return false;
          }),
          "all pods can be deleted");
  }

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
  std::unique_ptr<AttemptClock> attempt_clock_;
  std::mt19937 random_{1};
  int pods_made_ = 0;
  int jobs_made_ = 0;
};

void measure_failover(Bench& bench, json& samples) {
  samples["killed_seconds"] = bench.failover("killed", SIGKILL);
  samples["stopped_seconds"] = bench.failover("stopped", SIGTERM);
  const Bench::Large large = bench.large_jobs();
  samples["large_job_seconds"] = large.seconds;
  samples["peak_megabytes"] = large.peak_megabytes;
}

void measure_losses(Bench& bench, json& samples) {
  for (const int pods : {512, 2'000}) {
    const Bench::Losses losses = bench.losses(pods);
    std::vector<double> ratios;
    for (std::size_t round = 0; round < losses.created_seconds.size(); ++round) {
      ratios.push_back(losses.replaced_seconds[round] / losses.created_seconds[round]);
    }
    samples[fmt::format("created_{}_seconds", pods)] = losses.created_seconds;
    samples[fmt::format("replaced_{}_first_seconds", pods)] = losses.first_seconds;
    samples[fmt::format("replaced_{}_seconds", pods)] = losses.replaced_seconds;
    samples[fmt::format("replaced_{}_ratio", pods)] = ratios;
    samples[fmt::format("created_{}_processor_seconds", pods)] = losses.created_by;
    samples[fmt::format("replaced_{}_processor_seconds", pods)] = losses.replaced_by;
  }
}

void measure_memory(Bench& bench, json& samples) {
  for (const int pods : {0, 512, 2'000, 10'000}) {
    const Bench::Memory memory = bench.memory_with(pods);
    samples[fmt::format("megabytes_with_{}_pods", pods)] = {memory.megabytes};
    samples[fmt::format("peak_megabytes_with_{}_pods", pods)] = {memory.peak_megabytes};
  }
}

int run(const std::vector<std::string>& wanted) {
  const std::map<std::string, void (*)(Bench&, json&)> parts{
      {"failover", measure_failover}, {"losses", measure_losses}, {"memory", measure_memory}};
  json samples = json::object();
  for (const auto& [part, measure] : parts) {
    if (!wanted.empty() && std::ranges::find(wanted, part) == wanted.end()) continue;
    // Each part has its own control plane, so that objects of one part do not disturb the next.
    const auto control_plane = cluster::ControlPlane::start();
    if (!control_plane) {
      std::cerr << "error: " << control_plane.error().message << '\n';
      return 1;
    }
    Bench bench{**control_plane};
    measure(bench, samples);
  }
  std::cout << samples << '\n';
  return 0;
}

}  // namespace
}  // namespace trainyard

int main(int argc, char** argv) {
  return trainyard::run({argv + 1, argv + argc});
}
