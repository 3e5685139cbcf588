#include "cli/checkpoint_command.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <random>
#include <thread>

#include "cli/errors.hpp"
#include "cli/request_box.hpp"
#include "cli/run_folder.hpp"
#include "common/time_text.hpp"
#include "common/try.hpp"
#include "operator/plan/request_status.hpp"

namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;
using api::RequestState;
using namespace std::chrono_literals;

constexpr auto cluster_poll_interval = 500ms;
constexpr auto run_poll_interval = 50ms;

/// A new id, which sorts after earlier ones: "cli-20261121T100000.123-5f2c".
std::string make_id(Time now) {
  return fmt::format("cli-{}-{:04x}", compact_time(now), std::random_device{}() & 0xffffU);
}

std::string sent_text(const std::string& id) {
  return fmt::format("request {} was sent", id);
}

/// Calls `look` until it returns an error or a summary that is not `waiting`, or until `end`. Returns its last result.
Result<RequestSummary> poll_until_answered(const std::function<Result<RequestSummary>()>& look, Instant end,
                                           std::chrono::milliseconds interval, const Waiting& waiting) {
  while (true) {
    auto summary = look();
    if (!summary || summary->state != RequestSummary::State::waiting || waiting.clock.instant() >= end) return summary;
    waiting.pause(interval);
  }
}

Result<std::string> result_of(const RequestSummary& summary, std::chrono::milliseconds timeout) {
  switch (summary.state) {
    case RequestSummary::State::saved:
      return summary.sentence;
    case RequestSummary::State::failed:
      return fail(ErrorKind::internal, "no checkpoint was made: " + summary.sentence);
    case RequestSummary::State::waiting:
      break;
  }
  return fail(ErrorKind::timeout, fmt::format("no answer within {}: {}", format_duration(timeout), summary.sentence));
}

Error explain(const Error& error, const std::string& name_space, const CheckpointRequestOptions& options) {
  if (error.kind == ErrorKind::not_found) {
    return {.kind = error.kind,
            .message = fmt::format("there is no TrainingJob {} in the namespace {}", options.job, name_space)};
  }
  if (error.kind == ErrorKind::forbidden) {
    return {.kind = error.kind,
            .message = fmt::format("to ask for a checkpoint you need permission to patch TrainingJobs in the namespace "
                                   "{}, as the roles edit and admin have it: {}",
                                   name_space, error.message)};
  }
  return error;
}

}  // namespace

RequestSummary summarize_request(const api::CheckpointRequest& request) {
  switch (request.state) {
    case RequestState::pending:
      return {RequestSummary::State::waiting, request.message};
    case RequestState::done:
      return {RequestSummary::State::saved, fmt::format("step {} saved: {}", request.step.value_or(0), request.uri)};
    case RequestState::failed:
      break;
  }
  return {RequestSummary::State::failed, request.message};
}

RequestSummary summarize_request(const api::TrainingJob& job, const std::string& id) {
  const auto& request = job.status.checkpoint_request;
  if (request && request->id == id) return summarize_request(*request);
  const auto annotation = job.metadata.annotations.find(std::string{plan::checkpoint_request_annotation});
  if (annotation == job.metadata.annotations.end()) {
    return {RequestSummary::State::failed, "the request was removed from the job's annotation before it was answered"};
  }
  if (annotation->second != id) {
    return {RequestSummary::State::failed,
            fmt::format("the request '{}' replaced it before it was answered", annotation->second)};
  }
  return {RequestSummary::State::waiting, "no operator has taken it up yet"};
}

Result<void> annotate_request(kube::Api& api, const std::string& name_space, const std::string& job,
                              const std::string& id) {
  const kube::json annotation{{std::string{plan::checkpoint_request_annotation}, id}};
  return api
      .patch(kube::training_jobs, name_space, job, kube::PatchType::merge,
             {{"metadata", {{"annotations", annotation}}}})
      .map([](const kube::json&) {});
}

Result<std::string> request_in_cluster(kube::Api& api, const std::string& name_space,
                                       const CheckpointRequestOptions& options, const std::string& id,
                                       const Waiting& waiting) {
  const Instant end = waiting.clock.instant() + options.timeout;
  if (const auto annotated = annotate_request(api, name_space, options.job, id); !annotated)
    return tl::unexpected(explain(annotated.error(), name_space, options));
  if (options.is_sent_only) return sent_text(id);
  const auto look = [&]() -> Result<RequestSummary> {
    const auto object = api.get(kube::training_jobs, name_space, options.job);
    if (object)
      return api::parse_training_job(*object).map([&](const auto& job) { return summarize_request(job, id); });
    if (is_transient(object.error().kind))
      return RequestSummary{RequestSummary::State::waiting, object.error().message};
    return tl::unexpected(explain(object.error(), name_space, options));
  };
  auto summary = TRY(poll_until_answered(look, end, cluster_poll_interval, waiting));
  if (summary.state == RequestSummary::State::waiting)
    summary.sentence += " (the request stays in the job's annotation)";
  return result_of(summary, options.timeout);
}

Result<std::string> request_of_run(const fs::path& folder, const CheckpointRequestOptions& options,
                                   const std::string& id, const Waiting& waiting) {
  if (!is_run_in_progress(folder)) {
    return fail(ErrorKind::not_found, fmt::format("no run is in progress in {}", folder.string()));
  }
  RequestBox box{folder};
  const Instant end = waiting.clock.instant() + options.timeout;
  TRY(box.put(id));
  if (options.is_sent_only) return sent_text(id);
  const auto look = [&]() -> Result<RequestSummary> {
    // Checked before the answer is read: a run writes its last answer before it ends.
    const bool is_live = is_run_in_progress(folder);
    const auto answer = TRY(box.take_answer(id));
    if (answer) return summarize_request(*answer);
    if (is_live)
      return RequestSummary{RequestSummary::State::waiting,
                            fmt::format("the run in {} has not saved it yet", folder.string())};
    return fail(ErrorKind::not_found, fmt::format("the run in {} ended without an answer", folder.string()));
  };
  const auto summary = poll_until_answered(look, end, run_poll_interval, waiting);
  auto result = summary.and_then([&](const RequestSummary& last) { return result_of(last, options.timeout); });
  if (summary && summary->state != RequestSummary::State::waiting) return result;
  if (const auto withdrawn = box.withdraw(id); !withdrawn)
    result.error().message += fmt::format(" (the request could not be withdrawn: {})", withdrawn.error().message);
  return result;
}

int request_checkpoint(const CheckpointRequestOptions& options) {
  const SystemClock clock;
  const Waiting waiting{.clock = clock, .pause = [](auto time) { std::this_thread::sleep_for(time); }};
  const std::string id = make_id(clock.now());
  const fs::path folder = options.folder.empty() ? default_run_folder(options.job) : fs::path{options.folder};
  const auto answer = [&]() -> Result<std::string> {
    if (!options.cluster.is_named() && (!options.folder.empty() || is_run_in_progress(folder))) {
      return request_of_run(folder, options, id, waiting);
    }
    const auto cluster =
        TRY(open_cluster(options.cluster, fmt::format("no run of {} is in progress on this machine ({})", options.job,
                                                      folder.string())));
    return request_in_cluster(*cluster.api, cluster.name_space, options, id, waiting);
  }();
  if (!answer) return report(answer.error());
  std::printf("%s\n", answer->c_str());
  return 0;
}

}  // namespace trainyard::cli
