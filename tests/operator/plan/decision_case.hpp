#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/plan/draft.hpp"
#include "operator/plan/member.hpp"
#include "tests/builders/an_observed.hpp"

namespace trainyard::plan {

/// One row of a policy's table: the observed state, and everything that the policy decides.
struct DecisionCase {
  using Change = std::function<void(api::TrainingJobStatus&)>;

  std::string sentence;
  Observed observed;
  bool is_decided = false;
  Change change = [](api::TrainingJobStatus&) {};  ///< From the stored status to the expected one; the rest stays.
  std::vector<Event> events;
  std::optional<std::chrono::milliseconds> requeue_after;
  std::vector<std::string> pods_believed_gone;
  Time now = builders::later;
  std::vector<std::string> actions;  ///< In the words of builders::words_of().
};

using Policy = std::function<bool(const Observed&, const std::vector<Member>&, Time, Draft&)>;

/// Fails the test unless `policy` turns the row's `observed` into the row's status, actions and events, in every field.
void expect_decision(const DecisionCase& row, const Policy& policy);

/// A job with a history, in its third attempt: generation 4, two pods that run. Its status holds something in every
/// field that a decision could forget to reset or to keep: counters, a backoff that is over, progress with an estimated
/// end, answered requests, an avoided node, and conditions that are true since `start`.
[[nodiscard]] builders::ObservedBuilder after_a_life(const builders::JobBuilder& job = builders::a_job().checkpoint());

/// The condition `type` of an expected status, as of its present generation and since `at`.
void expect_condition(api::TrainingJobStatus& status, std::string_view type, bool is_true, std::string reason,
                      std::string message = {}, Time at = builders::later);

/// The status expected once attempt `number` of two CPU pods has begun at `later`; phase, reason and message aside.
void expect_next_attempt(api::TrainingJobStatus& status, std::int64_t number);

/// The status expected once the current attempt's record was closed at `later`.
void expect_attempt_ended(api::TrainingJobStatus& status, std::optional<api::Cause> cause, std::string message);

/// The status expected once the job has ended at `later`, or has begun to be deleted; phase, reason and message aside.
void expect_over(api::TrainingJobStatus& status, std::string reason);

void expect_phase(api::TrainingJobStatus& status, api::Phase phase, std::string reason = {}, std::string message = {});

}  // namespace trainyard::plan
