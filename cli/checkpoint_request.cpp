#include "cli/checkpoint_request.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <random>
#include <thread>

#include "cli/compact_time.hpp"
#include "cli/failure.hpp"
#include "cli/request_annotation.hpp"
#include "cli/request_box.hpp"
#include "cli/request_news.hpp"
#include "cli/run_folder.hpp"
#include "common/duration.hpp"
#include "common/try.hpp"

namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto cluster_look_interval = 500ms;
constexpr auto run_look_interval = 50ms;

/// Another one each time, and later ones after earlier ones: "cli-20261121T100000.123-5f2c".
std::string make_id(Time now) {
  return fmt::format("cli-{}-{:04x}", compact_time(now), std::random_device{}() & 0xffffU);
}

std::string sent_words(const std::string& id) {
  return fmt::format("request {} is sent", id);
}

/// What `look` gives last: an error, news that wait for nothing more, or whatever there is at `end`.
Result<RequestNews> wait_for_news(const std::function<Result<RequestNews>()>& look, Instant end,
                                  std::chrono::milliseconds interval, const Waiting& waiting) {
  while (true) {
    auto news = look();
    if (!news || news->state != RequestNews::State::waiting || waiting.clock.instant() >= end) return news;
    waiting.pause(interval);
  }
}

Result<std::string> result_of(const RequestNews& news, std::chrono::milliseconds timeout) {
  switch (news.state) {
    case RequestNews::State::saved:
      return news.sentence;
    case RequestNews::State::failed:
      return fail(ErrorKind::internal, "no checkpoint was made: " + news.sentence);
    case RequestNews::State::waiting:
      break;
  }
  return fail(ErrorKind::timeout, fmt::format("no answer within {}: {}", format_duration(timeout), news.sentence));
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
                                       const CheckpointRequestOptions& options, const std::string& id,
                                       const Waiting& waiting) {
  const Instant end = waiting.clock.instant() + options.timeout;
  if (const auto annotated = annotate_request(api, name_space, options.job, id); !annotated)
    return tl::unexpected(explain(annotated.error(), name_space, options));
  if (options.is_sent_only) return sent_words(id);
  const auto look = [&]() -> Result<RequestNews> {
    const auto object = api.get(kube::training_jobs, name_space, options.job);
    if (object) return api::parse_training_job(*object).map([&](const auto& job) { return request_news(job, id); });
    if (is_transient(object.error().kind)) return RequestNews{RequestNews::State::waiting, object.error().message};
    return tl::unexpected(explain(object.error(), name_space, options));
  };
  auto news = TRY(wait_for_news(look, end, cluster_look_interval, waiting));
  if (news.state == RequestNews::State::waiting) news.sentence += " (the request stands)";
  return result_of(news, options.timeout);
}

Result<std::string> request_of_run(const fs::path& folder, const CheckpointRequestOptions& options,
                                   const std::string& id, const Waiting& waiting) {
  if (!is_run_in_progress(folder)) {
    return fail(ErrorKind::not_found, fmt::format("no run is in progress in {}", folder.string()));
  }
  RequestBox box{folder};
  const Instant end = waiting.clock.instant() + options.timeout;
  TRY(box.put(id));
  if (options.is_sent_only) return sent_words(id);
  const auto look = [&]() -> Result<RequestNews> {
    // Before looking: the last answer is written before the run ends.
    const bool is_live = is_run_in_progress(folder);
    const auto answer = TRY(box.take_answer(id));
    if (answer) return request_news(*answer);
    if (is_live) return RequestNews{RequestNews::State::waiting, fmt::format("the run in {} goes on", folder.string())};
    return fail(ErrorKind::not_found, fmt::format("the run in {} ended without an answer", folder.string()));
  };
  const auto news = wait_for_news(look, end, run_look_interval, waiting);
  auto result = news.and_then([&](const RequestNews& last) { return result_of(last, options.timeout); });
  if (news && news->state != RequestNews::State::waiting) return result;
  if (const auto withdrawn = box.withdraw(id); !withdrawn)
    result.error().message += fmt::format(" (the request stands: {})", withdrawn.error().message);
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
