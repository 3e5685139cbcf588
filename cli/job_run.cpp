#include "cli/job_run.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "cli/checkpoint_folder.hpp"
#include "cli/job_watch.hpp"
#include "cli/local_run.hpp"
#include "cli/progress_text.hpp"
#include "cli/request_annotation.hpp"
#include "cli/request_box.hpp"
#include "local/cluster.hpp"
#include "operator/manifest/names.hpp"
#include "operator/manifest/worker_pod.hpp"

namespace trainyard::cli {
namespace {

using api::Phase;
using api::TrainingJob;
using api::TrainingJobStatus;
using namespace std::chrono_literals;

constexpr auto look_interval = 100ms;  // At logs and signals, which wake nobody.

bool is_over(const TrainingJobStatus& status) {
  return status.phase == Phase::succeeded || status.phase == Phase::failed;
}

/// The text `name` of `object`, which any program may have written; empty where it is none.
std::string text_in(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

class JobRun {
 public:
  JobRun(const nlohmann::json& job, const RunFolder& folder, JobRunOptions options, RunConsoles consoles,
         const StopSignals& signals)
      : object_(job),
        name_space_(job.at("metadata").value("namespace", "default")),
        name_(job.at("metadata").value("name", "")),
        folder_(folder),
        options_(std::move(options)),
        consoles_(consoles),
        signals_(signals),
        requests_(folder.path()),
        follower_(folder.logs(), options_.shown_logs) {}

  int run() {
    const Instant began = clock_.instant();
    if (const auto cleared = requests_.clear(); !cleared) close_box(cleared.error());
    local::Cluster cluster{clock_, {.kubelet = options_.kubelet}};
    if (const auto created = cluster.api().create(kube::training_jobs, name_space_, object_); !created) {
      consoles_.words.print("error: " + created.error().message);
      return 1;
    }
    JobWatch watch{cluster.api(), name_space_, name_};
    return follow(watch, cluster.api(), began);
  }

 private:
  int follow(JobWatch& watch, kube::Api& api, Instant began) {
    while (true) {
      watch.wait(look_interval);
      const auto job = watch.latest();
      if (job) tell(*job);
      if (job) pass_request_on(*job, api);
      if (signals_.count() >= 2) {
        consoles_.words.print("Killed. The last complete checkpoint is where the next run goes on.");
        return 128 + signals_.first();
      }
      if (signals_.count() == 1) suspend(api);
      if (job && (is_over(job->status) || (is_stopping_ && job->status.phase == Phase::suspended))) {
        return finish(*job, watch, api, began);
      }
    }
  }

  void tell(const TrainingJob& job) {
    show(follower_.read(job.status.attempt));
    record(job.status);
    // Where streams are apart a rank has no one file that could be named.
    const std::filesystem::path shown_log_folder = options_.kubelet.has_separate_streams ? "" : folder_.logs();
    if (const std::string line = ended_attempt_line(told_, job.status, shown_log_folder); !line.empty())
      print_news(line);
    if (const std::string line = request_line(told_, job.status); !line.empty()) print_news(line);
    if (const std::string line = phase_line(told_, job.status); !line.empty() && !options_.is_quiet) print_news(line);
    told_ = job.status;
    if (options_.is_quiet) return;
    if (!is_over(job.status)) consoles_.words.show(progress_line(job, clock_.now()), clock_.instant());
  }

  /// Leaves the status for `trainyard ps` and `trainyard status`, which are other processes.
  void record(const TrainingJobStatus& status) {
    if (recorded_ == status) return;
    recorded_ = status;
    const auto written = write_run_status(folder_.logs(), status);
    if (written || std::exchange(is_unrecorded_told_, true)) return;
    consoles_.words.print(
        fmt::format("error: {}; `trainyard ps` will not know how far this run is", written.error().message));
  }

  /// Turns another process's request for a checkpoint into the job's annotation, as `kubectl annotate` would.
  void pass_request_on(const TrainingJob& job, kube::Api& api) {
    const auto id = next_request();
    if (!id) return;
    const auto& request = job.status.checkpoint_request;
    if (request && request->id == *id) {
      if (request->state != api::RequestState::pending) answer(*request);
      return;
    }
    if (std::exchange(annotated_, *id) == *id) return;
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

  /// Takes no more requests: one that cannot be read or removed would fail again at every look.
  void close_box(const Error& error) {
    is_box_closed_ = true;
    consoles_.words.print(fmt::format("error: {}; this run takes no more requests for checkpoints", error.message));
  }

  void refuse(const std::string& id, const std::string& sentence) {
    answer({.id = id, .state = api::RequestState::failed, .message = sentence});
  }

  void refuse_the_rest() {
    while (const auto id = next_request()) refuse(*id, "the run ended before it was saved");
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
    consoles_.words.print("\nStopping: the ranks save and end. Ctrl-C again kills them.");
    if (!patched) consoles_.words.print("error: " + patched.error().message);
  }

  int finish(TrainingJob job, JobWatch& watch, kube::Api& api, Instant began) {
    refuse_the_rest();
    wait_for_sidecars(job, watch, api);
    // What came after the last report.
    if (const auto newest = job.spec.checkpoint ? newest_checkpoint(job.spec.checkpoint->uri) : std::nullopt;
        newest && (!job.status.checkpoint || newest->step > job.status.checkpoint->step)) {
      job.status.checkpoint = newest;
    }
    record(job.status);
    show(follower_.read_rest());
    consoles_.words.clear();
    const bool is_good = job.status.phase == Phase::succeeded;
    if (!options_.is_quiet || !is_good) {
      const nlohmann::json last = last_word(api, job);
      const Outcome outcome{.logs = folder_.logs(),
                            .took = std::chrono::duration_cast<std::chrono::milliseconds>(clock_.instant() - began),
                            .worker_message = text_in(last, "message"),
                            .is_already_complete = text_in(last, "reason") == "AlreadyComplete",
                            .is_command = options_.kubelet.has_separate_streams};
      for (const auto& line : summary_of(job, outcome)) consoles_.words.print(line);
    }
    if (job.status.phase == Phase::suspended) {
      if (job.spec.checkpoint) consoles_.words.print("The same command goes on from the last checkpoint.");
      return 128 + signals_.first();
    }
    return is_good ? 0 : 1;
  }

  /// Waits for the sidecars of ended workers: they are asked to end only once the workers have, and have the pods'
  /// grace period for it.
  void wait_for_sidecars(const TrainingJob& job, JobWatch& watch, kube::Api& api) const {
    const Instant end = clock_.instant() + std::chrono::seconds{manifest::grace_seconds(job.spec)};
    while (has_ending_sidecars(api) && signals_.count() < 2 && clock_.instant() < end) {
      watch.wait(look_interval);
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

  /// What rank 0's worker left when it ended well; an empty object for programs that leave nothing, and when its pod is
  /// gone.
  nlohmann::json last_word(kube::Api& api, const TrainingJob& job) const {
    const auto pod = api.get(kube::pods, name_space_, manifest::pod_name(job, job.status.attempt, 0));
    if (!pod) return nlohmann::json::object();
    const auto field = "/status/containerStatuses/0/state/terminated/message"_json_pointer;
    auto message = nlohmann::json::parse(pod->value(field, ""), nullptr, false);
    return message.is_object() ? message : nlohmann::json::object();
  }

  void print_news(const std::string& line) {
    consoles_.words.print(fmt::format("{:%H:%M:%S}  {}", fmt::localtime(std::time(nullptr)), line));
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
  std::string annotated_;  // the request that was passed on last
  const SystemClock clock_;
  OutputFollower follower_;
  TrainingJobStatus told_;
  std::optional<TrainingJobStatus> recorded_;
  bool is_unrecorded_told_ = false;
  bool is_stopping_ = false;
};

}  // namespace

int run_job(const nlohmann::json& job, const RunFolder& folder, JobRunOptions options, RunConsoles consoles,
            const StopSignals& signals) {
  return JobRun{job, folder, std::move(options), consoles, signals}.run();
}

}  // namespace trainyard::cli
