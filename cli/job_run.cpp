#include "cli/job_run.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "checkpoint/format/layout.hpp"
#include "checkpoint/interchange/catalogue.hpp"
#include "cli/checkpoint_command.hpp"
#include "cli/local_run.hpp"
#include "cli/progress_text.hpp"
#include "cli/request_box.hpp"
#include "cli/volume_map.hpp"
#include "common/logging.hpp"
#include "common/text.hpp"
#include "local/cluster.hpp"
#include "operator/kube/api.hpp"
#include "operator/manifest/names.hpp"
#include "operator/manifest/worker_pod.hpp"
#include "storage/store.hpp"

namespace trainyard::cli {
namespace {

using api::Phase;
using api::TrainingJob;
using api::TrainingJobStatus;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr auto poll_interval = 100ms;  // For logs and signals, which wake no thread.

bool is_over(const TrainingJobStatus& status) {
  return status.phase == Phase::succeeded || status.phase == Phase::failed;
}

/// The string `name` of `object`, which any program may have written; empty if it is no string.
std::string text_in(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// The newest state of one TrainingJob. Any thread may call.
class JobWatch {
 public:
  /// `api` outlives the watch.
  JobWatch(kube::Api& api, std::string name_space, std::string name)
      : api_{api},
        name_space_{std::move(name_space)},
        name_{std::move(name)},
        thread_{[this](const std::stop_token& stop) { run(stop); }} {}

  /// Returns when the job has changed or after `limit`, whichever comes first.
  void wait(std::chrono::milliseconds limit) {
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, limit, [this] { return has_news_; });
    has_news_ = false;
  }

  /// The newest state; empty: no event has come yet.
  [[nodiscard]] std::optional<TrainingJob> latest() const {
    const std::scoped_lock lock{mutex_};
    return latest_;
  }

 private:
  void run(const std::stop_token& stop) {
    // Each watch begins without a version, so its first event is the job's present state.
    while (!stop.stop_requested()) {
      const auto ended = api_.watch(
          kube::training_jobs, {.name_space = name_space_}, [this](const kube::WatchEvent& event) { take(event); },
          stop);
      if (!ended && ended.error().kind != ErrorKind::cancelled) {
        logging::debug("watch ended, starting it again", {{"job", name_}, {"error", ended.error().message}});
      }
    }
  }

  void take(const kube::WatchEvent& event) {
    if (event.type == kube::WatchEventType::bookmark || event.object.at("metadata").value("name", "") != name_) return;
    auto job = api::parse_training_job(event.object);
    if (!job) {
      logging::error("a job's status cannot be read", {{"job", name_}, {"error", job.error().message}});
      return;
    }
    {
      const std::scoped_lock lock{mutex_};
      latest_ = *std::move(job);
      has_news_ = true;
    }
    changed_.notify_all();
  }

  kube::Api& api_;
  const std::string name_space_;
  const std::string name_;
  mutable std::mutex mutex_;  // guards the two below
  std::optional<TrainingJob> latest_;
  bool has_news_ = false;
  std::condition_variable changed_;
  std::jthread thread_;  // Last: joins before the rest dies.
};

class JobRun {
 public:
  JobRun(const nlohmann::json& job, const RunFolder& folder, JobRunOptions options, RunConsoles consoles,
         const StopSignals& signals)
      : object_{job},
        name_space_{job.at("metadata").value("namespace", "default")},
        name_{job.at("metadata").value("name", "")},
        folder_{folder},
        options_{std::move(options)},
        consoles_{consoles},
        signals_{signals},
        requests_{folder.path()},
        follower_{folder.logs(), options_.shown_logs} {}

  int run() {
    const Instant began = clock_.instant();
    if (const auto cleared = requests_.clear(); !cleared) close_box(cleared.error());
    local::Cluster cluster{clock_, {.kubelet = options_.kubelet}};
    if (const auto created = cluster.api().create(kube::training_jobs, name_space_, object_); !created) {
      consoles_.messages.print("error: " + created.error().message);
      return 1;
    }
    JobWatch watch{cluster.api(), name_space_, name_};
    return follow(watch, cluster.api(), began);
  }

 private:
  int follow(JobWatch& watch, kube::Api& api, Instant began) {
    while (true) {
      watch.wait(poll_interval);
      const auto job = watch.latest();
      if (job) print_changes(*job);
      if (job) forward_request(*job, api);
      if (signals_.count() >= 2) {
        consoles_.messages.print(killed_line());
        return 128 + signals_.first();
      }
      if (signals_.count() == 1) suspend(api);
      if (job && (is_over(job->status) || (is_stopping_ && job->status.phase == Phase::suspended))) {
        return finish(*job, watch, api, began);
      }
    }
  }

  [[nodiscard]] std::string killed_line() const {
    if (!object_.contains("/spec/checkpoint"_json_pointer)) return "Killed.";
    return object_.value("/spec/checkpoint/resume"_json_pointer, "") == "none"
               ? "Killed. The next run begins afresh, since checkpoint.resume is none."
               : "Killed. The next run resumes from the last complete checkpoint.";
  }

  void print_changes(const TrainingJob& job) {
    show(follower_.read(job.status.attempt));
    record(job.status);
    // With separate streams a rank has two log files, so none is named.
    const std::filesystem::path shown_log_folder = options_.kubelet.has_separate_streams ? "" : folder_.logs();
    for (const auto& line : ended_attempt_lines(printed_status_, job.status, shown_log_folder, hosts()))
      print_with_time(line);
    if (const std::string line = request_line(printed_status_, job.status); !line.empty()) print_with_time(line);
    if (const std::string line = phase_line(printed_status_, job.status); !line.empty() && !options_.is_quiet)
      print_with_time(line);
    printed_status_ = job.status;
    if (options_.is_quiet) return;
    if (!is_over(job.status)) consoles_.messages.show(progress_line(job, clock_.now()), clock_.instant());
  }

  /// The host of each rank; empty where all ranks are on this machine because no hosts were named.
  [[nodiscard]] std::vector<std::string> hosts() const {
    std::vector<std::string> names;
    for (const auto& seat : options_.kubelet.seats) names.push_back(seat.host);
    return names;
  }

  /// Writes the status for `trainyard ps` and `trainyard status`, which are other processes.
  void record(const TrainingJobStatus& status) {
    if (recorded_ == status) return;
    recorded_ = status;
    const auto written = write_run_status(folder_.logs(), status);
    if (written || std::exchange(has_printed_record_error_, true)) return;
    consoles_.messages.print(
        fmt::format("error: {}; `trainyard ps` will not show the progress of this run", written.error().message));
  }

  /// Turns another process's request for a checkpoint into the job's annotation, as `kubectl annotate` would.
  void forward_request(const TrainingJob& job, kube::Api& api) {
    const auto id = next_request();
    if (!id) return;
    const auto& request = job.status.checkpoint_request;
    if (request && request->id == *id) {
      if (request->state != api::RequestState::pending) answer(*request);
      return;
    }
    if (std::exchange(forwarded_, *id) == *id) return;
    if (const auto annotated = annotate_request(api, name_space_, name_, *id); !annotated)
      refuse(*id, annotated.error().message);
  }

  std::optional<std::string> next_request() {
    if (is_box_closed_) return std::nullopt;
    auto id = requests_.next();
    if (id) return *std::move(id);
    close_box(id.error());
    return std::nullopt;
  }

  /// Takes no more requests, since one that cannot be read or removed would fail again at every poll.
  void close_box(const Error& error) {
    is_box_closed_ = true;
    consoles_.messages.print(fmt::format("error: {}; this run answers no more checkpoint requests", error.message));
  }

  void refuse(const std::string& id, const std::string& sentence) {
    answer({.id = id, .state = api::RequestState::failed, .message = sentence});
  }

  void refuse_the_rest() {
    while (const auto id = next_request()) refuse(*id, "the run ended before the checkpoint was saved");
  }

  void answer(const api::CheckpointRequest& answer) {
    if (const auto written = requests_.answer(answer); !written) close_box(written.error());
  }

  void show(const RankOutput& news) {
    if (!news.output.empty()) consoles_.output.write(news.output);
    if (!news.error.empty()) consoles_.error.write(news.error);
  }

  void suspend(kube::Api& api) {
    if (std::exchange(is_stopping_, true)) return;
    const auto patched =
        api.patch(kube::training_jobs, name_space_, name_, kube::PatchType::merge, {{"spec", {{"suspend", true}}}});
    consoles_.messages.print("\nStopping: the ranks end, and save first if they can. Ctrl-C again kills them.");
    if (!patched) consoles_.messages.print("error: " + patched.error().message);
  }

  int finish(TrainingJob job, JobWatch& watch, kube::Api& api, Instant began) {
    refuse_the_rest();
    wait_for_sidecars(job, watch, api);
    // The ranks' last save may be later than their last report.
    if (const auto newest = newest_checkpoint_of(job);
        newest && (!job.status.checkpoint || newest->step > job.status.checkpoint->step)) {
      job.status.checkpoint = newest;
    }
    record(job.status);
    show(follower_.read_rest());
    consoles_.messages.clear();
    const bool is_good = job.status.phase == Phase::succeeded;
    if (!options_.is_quiet || !is_good) {
      const nlohmann::json last = worker_report(api, job);
      const Outcome outcome{.logs = folder_.logs(),
                            .took = std::chrono::duration_cast<std::chrono::milliseconds>(clock_.instant() - began),
                            .worker_message = text_in(last, "message"),
                            .is_already_complete = text_in(last, "reason") == "AlreadyComplete",
                            .is_command = options_.kubelet.has_separate_streams,
                            .hosts = hosts()};
      for (const auto& line : summary_of(job, outcome)) consoles_.messages.print(line);
    }
    if (job.status.phase == Phase::suspended) {
      if (const std::string next = next_run_line(job); !next.empty()) consoles_.messages.print(next);
      return 128 + signals_.first();
    }
    return is_good ? 0 : 1;
  }

  /// A run that begins afresh and ends at once may not have superseded the checkpoints of the run before.
  [[nodiscard]] static std::optional<api::CheckpointStatus> newest_checkpoint_of(const TrainingJob& job) {
    const auto& checkpoint = job.spec.checkpoint;
    if (!checkpoint) return std::nullopt;
    const bool begins_afresh = checkpoint->resume == api::ResumeMode::none;
    return newest_checkpoint(checkpoint->uri, begins_afresh ? job.metadata.uid : "");
  }

  /// Waits for the sidecars of ended workers, for at most the pods' grace period: sidecars are stopped only after the
  /// workers have ended.
  void wait_for_sidecars(const TrainingJob& job, JobWatch& watch, kube::Api& api) const {
    const Instant end = clock_.instant() + std::chrono::seconds{manifest::grace_seconds(job.spec)};
    while (has_ending_sidecars(api) && signals_.count() < 2 && clock_.instant() < end) {
      watch.wait(poll_interval);
    }
  }

  [[nodiscard]] bool has_ending_sidecars(kube::Api& api) const {
    const auto pods = api.list(kube::pods, {.name_space = name_space_});
    return pods && std::ranges::any_of(pods->items, [](const nlohmann::json& pod) {
             const auto is_terminated = [](const nlohmann::json& container) {
               return container.at("state").contains("terminated");
             };
             const auto statuses = pod.value("/status/containerStatuses"_json_pointer, nlohmann::json::array());
             return pod.value("/status/phase"_json_pointer, "") == "Running" &&
                    pod.value("/status"_json_pointer, nlohmann::json::object()).contains("initContainerStatuses") &&
                    std::ranges::all_of(statuses, is_terminated);
           });
  }

  /// The termination message of rank 0's worker; an empty object if the program wrote none, or its pod is gone.
  nlohmann::json worker_report(kube::Api& api, const TrainingJob& job) const {
    const auto pod = api.get(kube::pods, name_space_, manifest::pod_name(job, job.status.attempt, 0));
    if (!pod) return nlohmann::json::object();
    const auto field = "/status/containerStatuses/0/state/terminated/message"_json_pointer;
    auto message = nlohmann::json::parse(pod->value(field, ""), nullptr, false);
    return message.is_object() ? message : nlohmann::json::object();
  }

  void print_with_time(const std::string& line) {
    consoles_.messages.print(fmt::format("{:%H:%M:%S}  {}", fmt::localtime(std::time(nullptr)), line));
  }

  const nlohmann::json& object_;
  const std::string name_space_;
  const std::string name_;
  const RunFolder& folder_;
  const JobRunOptions options_;
  const RunConsoles consoles_;
  const StopSignals& signals_;
  RequestBox requests_;
  bool is_box_closed_ = false;
  std::string forwarded_;  // the request that was forwarded last
  const SystemClock clock_;
  OutputFollower follower_;
  TrainingJobStatus printed_status_;
  std::optional<TrainingJobStatus> recorded_;
  bool has_printed_record_error_ = false;
  bool is_stopping_ = false;
};

}  // namespace

std::optional<api::CheckpointStatus> newest_checkpoint(const std::string& uri, std::string_view job_uid) {
  std::error_code error;
  if (!uri.starts_with(file_scheme) || !fs::is_directory(uri.substr(file_scheme.size()), error)) return std::nullopt;
  const auto store = storage::open_store(uri, {});
  if (!store) return std::nullopt;
  const auto catalogue = checkpoint::read_catalogue(**store);
  const checkpoint::Listed* const newest = catalogue ? catalogue->newest() : nullptr;
  if (newest == nullptr) return std::nullopt;
  if (!job_uid.empty() && newest->manifest->identity.job_uid != job_uid) return std::nullopt;
  return api::CheckpointStatus{.step = newest->id.step, .uri = (*store)->uri_of(checkpoint::folder_key(newest->id))};
}

int run_job(const nlohmann::json& job, const RunFolder& folder, JobRunOptions options, RunConsoles consoles,
            const StopSignals& signals) {
  return JobRun{job, folder, std::move(options), consoles, signals}.run();
}

}  // namespace trainyard::cli
