#include "worker/clean_up/task.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "api/contract.hpp"
#include "checkpoint/interchange/removal.hpp"
#include "common/try.hpp"
#include "worker/rank/environment.hpp"

namespace trainyard::clean_up {
namespace {

using rank::RankEnd;

RankEnd refused(const Error& error) {
  return {
      .exit_code = contract::exit_do_not_restart, .reason = "CleanUpRefused", .message = error.message, .culprit = {}};
}

RankEnd failed(const Error& error) {
  return {.exit_code = contract::exit_storage, .reason = "StorageFailed", .message = error.message, .culprit = {}};
}

// Does not use parse_group_environment(): no rank runs in this pod, so variables of ranks in its template are ignored.
Result<checkpoint::Identity> read_identity(const rank::Environment& environment) {
  checkpoint::Identity identity{.job = fmt::format("{}/{}", environment(contract::env_namespace).value_or(""),
                                                   environment(contract::env_job).value_or("")),
                                .job_uid = environment(contract::env_job_uid).value_or(""),
                                .attempt = 1,
                                .fingerprint = {}};
  if (identity.job_uid.empty()) {
    return fail(ErrorKind::invalid,
                fmt::format("{} is not set: it says whose checkpoints are to be removed; the operator sets it",
                            contract::env_job_uid));
  }
  return rank::number_or(environment, contract::env_attempt, {.min = 1}, 1).map([&](std::int64_t attempt) {
    identity.attempt = attempt;
    return std::move(identity);
  });
}

RankEnd done(const checkpoint::CleanedUp& cleaned, const storage::Store& store) {
  std::string message = fmt::format("nothing of the job is left in {}: {} checkpoints and {} snapshots were removed",
                                    store.uri_of(""), cleaned.checkpoints, cleaned.snapshots);
  if (cleaned.strangers > 0) message += fmt::format("; {} objects that no worker writes stay", cleaned.strangers);
  return {.exit_code = contract::exit_success, .reason = "Completed", .message = std::move(message), .culprit = {}};
}

}  // namespace

Result<Task> read_task(const rank::Environment& environment) {
  auto identity = TRY(read_identity(environment));
  const auto spec = nlohmann::json::parse(environment(contract::env_spec).value_or(""), nullptr, false);
  if (!spec.is_object() || !spec.contains("checkpoint")) {
    return fail(ErrorKind::invalid,
                fmt::format("{} is not a JSON object with the field `checkpoint`", contract::env_spec));
  }
  auto checkpoint = api::parse_checkpoint_spec(spec["checkpoint"]);
  if (!checkpoint) return fail(contract::env_spec, checkpoint.error());
  return Task{.checkpoint = std::move(*checkpoint), .identity = std::move(identity)};
}

RankEnd run(const rank::Environment& environment, const Clock& clock, const OpenStore& open) {
  const auto task = read_task(environment);
  if (!task) return refused(task.error());
  const auto store = open(task->checkpoint);
  if (!store) return refused(store.error());
  if (const auto there = (*store)->probe(); !there) {
    const bool is_nowhere = there.error().kind == ErrorKind::not_found || there.error().kind == ErrorKind::invalid;
    return is_nowhere ? refused(there.error()) : failed(there.error());
  }
  const auto cleaned = checkpoint::clean_up(**store, task->identity, clock);
  if (cleaned) return done(*cleaned, **store);
  return cleaned.error().kind == ErrorKind::invalid ? refused(cleaned.error()) : failed(cleaned.error());
}

}  // namespace trainyard::clean_up
