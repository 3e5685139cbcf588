#include "operator/plan/request_status.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "api/contract.hpp"
#include "api/request.hpp"
#include "operator/manifest/request_token.hpp"
#include "operator/plan/conditions.hpp"
#include "operator/plan/transition.hpp"

namespace trainyard::plan {
namespace {

using api::CheckpointRequest;
using api::RequestState;

constexpr std::string_view operators_prefix = "suspend-";

/// The annotation's value; empty if there is no annotation.
std::string wanted_id(const api::TrainingJob& job) {
  const auto found = job.metadata.annotations.find(std::string{checkpoint_request_annotation});
  return found == job.metadata.annotations.end() ? std::string{} : found->second;
}

/// `id` as the status can hold it. A malformed id becomes a text that is not an id, so that it equals no valid one.
std::string shown_id(std::string id) {
  if (contract::is_request_id(id)) return id;
  std::ranges::replace_if(
      id, [](char c) { return !contract::is_request_id_character(c); }, '?');
  constexpr std::size_t bytes_max = contract::checkpoint_request_id_bytes_max;
  if (id.size() > bytes_max) id.replace(bytes_max - 1, std::string::npos, "?");
  return id;
}

bool is_pending(const std::optional<CheckpointRequest>& request) {
  return request && request->state == RequestState::pending;
}

/// Why the job can never answer the annotation's request; empty if it can.
std::string fault_of(const api::TrainingJob& job) {
  if (!contract::is_request_id(wanted_id(job))) {
    return fmt::format("the annotation's value must match {}", contract::checkpoint_request_id_pattern);
  }
  if (wanted_id(job).starts_with(operators_prefix)) {
    return fmt::format("ids that begin with {} are the operator's own", operators_prefix);
  }
  if (is_finished(job.status)) return "the job has ended: nothing trains any more";
  if (!job.spec.training) return "a container of your own does not take checkpoint requests";
  if (!manifest::takes_requests(job.spec)) return "spec.checkpoint is not set: there is nowhere to save to";
  return {};
}

bool is_rank_0_running(const std::vector<Member>& members) {
  return !members.empty() && members.front().state == MemberState::running && !members.front().is_leaving;
}

constexpr const char* asked_words = "waiting for rank 0 to accept the request";

/// True when the poller sends requests to rank 0 now.
bool is_asked(const api::TrainingJobStatus& status, const std::vector<Member>& members) {
  return is_active(status) && can_be_asked(members);
}

std::string waiting_words(const api::TrainingJobStatus& status, const std::vector<Member>& members) {
  if (is_asked(status, members)) return asked_words;
  if (!is_active(status)) return "the job does not run: the request is sent when it trains again";
  if (!is_rank_0_running(members)) return "rank 0 does not run yet: the request is sent when it does";
  return "the pods of this attempt take no requests: the request is sent in the next attempt";
}

/// Rank 0's reports of requests. The reports of the termination message come last, because they are newer than the
/// poll.
std::vector<CheckpointRequest> reports_of(const api::TrainingJobStatus& status, const Observed& observed,
                                          const std::vector<Member>& members) {
  std::vector<CheckpointRequest> reports;
  const auto add = [&](const ProgressReport& report) {
    if (report.attempt == status.attempt) {
      reports.insert(reports.end(), report.requests.begin(), report.requests.end());
    }
  };
  if (observed.progress) add(*observed.progress);
  if (!members.empty() && members.front().ending && members.front().ending->progress) {
    add(*members.front().ending->progress);
  }
  return reports;
}

void follow(CheckpointRequest& request, const std::vector<CheckpointRequest>& reports, std::string waiting, Time now) {
  request.message = std::move(waiting);
  for (const CheckpointRequest& report : reports) {
    if (report.id != request.id) continue;
    const auto asked_at = request.time;
    request = report;
    request.message = bounded_text(report.message);
    request.time = report.state == RequestState::pending ? asked_at : now;
    if (report.state == RequestState::pending && request.message.empty()) request.message = "rank 0 saves it";
  }
}

/// Starts the request that the annotation asks for.
void take_annotation(api::TrainingJobStatus& status, const Observed& observed, const std::vector<Member>& members,
                     Time now) {
  std::optional<CheckpointRequest>& request = status.checkpoint_request;
  const std::string wanted = wanted_id(observed.job);
  if (wanted.empty()) return abandon(request, "the annotation was taken away before there was an answer", now);
  const std::string id = shown_id(wanted);
  if (request && request->id == id) return;
  // Rank 0 handles one request at a time.
  if (is_pending(request) && is_asked(status, members)) return;
  request = CheckpointRequest{.id = id, .time = now, .message = waiting_words(status, members)};
  abandon(request, fault_of(observed.job), now);
}

}  // namespace

std::string suspend_request_id(std::int64_t spec_generation) {
  return fmt::format("{}{}", operators_prefix, spec_generation);
}

std::optional<RequestToSend> request_to_send(const api::TrainingJobStatus& status) {
  const bool is_suspending = status.phase == api::Phase::suspending;
  const auto& request = is_suspending ? status.suspend_request : status.checkpoint_request;
  if (!is_pending(request) || !(is_suspending || is_active(status))) return std::nullopt;
  return RequestToSend{.id = request->id, .is_last = is_suspending};
}

bool can_be_asked(const std::vector<Member>& members) {
  return is_rank_0_running(members) && !members.front().pod->request_token.empty();
}

bool is_taken(const Observed& observed, const std::string& id) {
  const auto& report = observed.progress;
  return report && report->attempt == observed.job.status.attempt &&
         std::ranges::find(report->requests, id, &CheckpointRequest::id) != report->requests.end();
}

void abandon(std::optional<CheckpointRequest>& request, std::string_view why, Time now) {
  if (!is_pending(request) || why.empty()) return;
  request->state = RequestState::failed;
  request->message = why;
  request->time = now;
}

void take_checkpoint_requests(api::TrainingJobStatus& status, const Observed& observed,
                              const std::vector<Member>& members, Time now) {
  const auto reports = reports_of(status, observed, members);
  if (is_pending(status.checkpoint_request)) {
    follow(*status.checkpoint_request, reports, waiting_words(status, members), now);
  }
  if (is_pending(status.suspend_request)) follow(*status.suspend_request, reports, asked_words, now);
  if (is_finished(status)) {
    abandon(status.checkpoint_request, "the job ended before the checkpoint was saved", now);
    abandon(status.suspend_request, "the job ended before the checkpoint was saved", now);
  }
  take_annotation(status, observed, members, now);
}

}  // namespace trainyard::plan
