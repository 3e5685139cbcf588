#include "cli/checkpoint_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <random>
#include <thread>

#include "cli/failure.hpp"
#include "cli/request_box.hpp"
#include "cli/request_news.hpp"
#include "cli/run_folder.hpp"
#include "common/clock.hpp"
#include "common/duration.hpp"
#include "common/rfc3339.hpp"
#include "operator/plan/checkpoint_request.hpp"

namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto cluster_look_interval = 500ms;
constexpr auto run_look_interval = 50ms;

/// Another one each time, and later ones after earlier ones: "cli-20261121T100000.123-5f2c".
std::string make_id() {
  std::string time = format_rfc3339_micro(SystemClock{}.now()).substr(0, 23);
  std::erase_if(time, [](char c) { return c == '-' || c == ':'; });
  return fmt::format("cli-{}-{:04x}", time, std::random_device{}() & 0xffffU);
}

std::string sent_words(const std::string& id) {
  return fmt::format("request {} is sent", id);
}

tl::unexpected<Error> late(const CheckpointRequestOptions& options, const std::string& waits_for) {
  return fail(ErrorKind::timeout, fmt::format("no answer within {}: {}", format_duration(options.timeout), waits_for));
}

/// Whatever it waits for no more.
Result<std::string> result_of(const RequestNews& news) {
  if (news.state == RequestNews::State::saved) return news.sentence;
  return fail(ErrorKind::internal, "no checkpoint was made: " + news.sentence);
}

Error explain(const Error& error, const std::string& name_space, const CheckpointRequestOptions& options) {
  if (error.kind == ErrorKind::not_found) {
    return {.kind = error.kind,
            .message = fmt::format("there is no TrainingJob {} in the namespace {}", options.job, name_space)};
  }
  if (error.kind == ErrorKind::forbidden) {
    return {.kind = error.kind,
            .message = fmt::format("asking for a checkpoint takes the right to patch TrainingJobs in the namespace {}, "
                                   "which the roles edit and admin have: {}",
                                   name_space, error.message)};
  }
  return error;
}

}  // namespace

Result<std::string> request_in_cluster(kube::Api& api, const std::string& name_space,
                                       const CheckpointRequestOptions& options, const std::string& id) {
  const auto end = std::chrono::steady_clock::now() + options.timeout;
  const kube::json annotation{{std::string{plan::checkpoint_request_annotation}, id}};
  const auto patched = api.patch(kube::training_jobs, name_space, options.job, kube::PatchType::merge,
                                 {{"metadata", {{"annotations", annotation}}}});
  if (!patched) return tl::unexpected{explain(patched.error(), name_space, options)};
  if (options.is_sent_only) return sent_words(id);
  std::string waits_for;
  while (true) {
    const auto object = api.get(kube::training_jobs, name_space, options.job);
    if (object) {
      const auto job = resource::parse_training_job(*object);
      if (!job) return tl::unexpected{job.error()};
      const RequestNews news = request_news(*job, id);
      if (news.state != RequestNews::State::waiting) return result_of(news);
      waits_for = news.sentence;
    } else if (!is_transient(object.error().kind)) {
      return tl::unexpected{explain(object.error(), name_space, options)};
    } else {
      waits_for = object.error().message;
    }
    if (std::chrono::steady_clock::now() >= end) return late(options, waits_for + " (the request stands)");
    std::this_thread::sleep_for(cluster_look_interval);
  }
}

Result<std::string> request_of_run(const fs::path& folder, const CheckpointRequestOptions& options,
                                   const std::string& id) {
  if (!is_run_in_progress(folder)) {
    return fail(ErrorKind::not_found, fmt::format("no run is in progress in {}", folder.string()));
  }
  const RequestBox box{folder};
  const auto end = std::chrono::steady_clock::now() + options.timeout;
  if (auto put = box.put(id); !put) return tl::unexpected{put.error()};
  if (options.is_sent_only) return sent_words(id);
  while (true) {
    // Before looking: the last answer is written before the run ends.
    const bool is_live = is_run_in_progress(folder);
    if (const auto answer = box.take_answer(id)) return result_of(request_news(*answer));
    const bool is_late = std::chrono::steady_clock::now() >= end;
    if (!is_live || is_late) box.withdraw(id);
    if (!is_live)
      return fail(ErrorKind::not_found, fmt::format("the run in {} ended without an answer", folder.string()));
    if (is_late) return late(options, fmt::format("the run in {} goes on", folder.string()));
    std::this_thread::sleep_for(run_look_interval);
  }
}

int request_checkpoint(const CheckpointRequestOptions& options) {
  const std::string id = make_id();
  const fs::path folder = options.folder.empty() ? default_run_folder(options.job) : fs::path{options.folder};
  const auto answer = [&]() -> Result<std::string> {
    if (!options.cluster.is_named() && (!options.folder.empty() || is_run_in_progress(folder))) {
      return request_of_run(folder, options, id);
    }
    const auto cluster = open_cluster(
        options.cluster, fmt::format("no run of {} is in progress on this machine ({})", options.job, folder.string()));
    if (!cluster) return tl::unexpected{cluster.error()};
    return request_in_cluster(*cluster->api, cluster->name_space, options, id);
  }();
  if (!answer) return report(answer.error());
  std::printf("%s\n", answer->c_str());
  return 0;
}

}  // namespace trainyard::cli
