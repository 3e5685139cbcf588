#include "operator/plan/request_status.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "operator/plan/plan.hpp"
#include "tests/builders/an_observed.hpp"

namespace trainyard::plan {
namespace {

using api::CheckpointRequest;
using api::Phase;
using api::RequestState;
using builders::a_job;
using builders::an_observed;
using builders::later;
using builders::ObservedBuilder;
using builders::start;
using namespace std::chrono_literals;

const Time asked_at = start + 5s;

void take_requests(Observed& observed) {
  for (resource::Pod& pod : observed.pods) pod.request_token = "token";
}

/// A job that trains and can save; its user asks for `id`.
ObservedBuilder asked_for(const std::string& id, const builders::JobBuilder& job = a_job().checkpoint()) {
  return an_observed(job).with([&](Observed& observed) {
    observed.job.metadata.annotations[std::string{checkpoint_request_annotation}] = id;
    take_requests(observed);
  });
}

CheckpointRequest pending(std::string id, std::string message = "waiting for rank 0 to accept the request") {
  return {.id = std::move(id), .time = asked_at, .message = std::move(message)};
}

CheckpointRequest failed(std::string id, std::string message) {
  return {.id = std::move(id), .state = RequestState::failed, .time = later, .message = std::move(message)};
}

CheckpointRequest done(std::string id) {
  return {.id = std::move(id), .state = RequestState::done, .step = 1200, .uri = "s3://m/step-1200/g-1", .time = later};
}

/// Rank 0's report of a request, which has no time.
CheckpointRequest said(CheckpointRequest request) {
  request.time.reset();
  return request;
}

struct RequestCase {
  std::string sentence;
  Observed observed;
  std::optional<CheckpointRequest> stored;
  std::optional<CheckpointRequest> expected;
};

Observed reporting(const ObservedBuilder& observed, const CheckpointRequest& record, std::int64_t attempt = 1) {
  return ObservedBuilder{observed}.with(
      [&](Observed& changed) { changed.progress = ProgressReport{.attempt = attempt, .requests = {record}}; });
}

ObservedBuilder succeeded(const ObservedBuilder& observed) {
  return ObservedBuilder{observed}.phase(Phase::succeeded);
}

CheckpointRequest asked_now(CheckpointRequest request) {
  request.time = later;
  return request;
}

TEST(TakeCheckpointRequests, FollowsTheAnnotationAndRank0) {
  const std::string form = "the annotation's value must match [A-Za-z0-9._-]{1,63}";
  const std::string last_words =
      R"({"exitCode": 1, "progress": {"checkpointRequest": {"id": "a", "state": "Done", "step": 1200, "uri": "s3://m/step-1200/g-1"}}})";
  const std::vector<RequestCase> rows{
      {"nobody asks", asked_for(""), {}, {}},
      {"a new id is asked for", asked_for("a"), {}, asked_now(pending("a"))},
      {"the id that is asked for stays so", asked_for("a"), pending("a"), pending("a")},
      {"it waits for nothing any more", asked_for("a"),
       pending("a", "rank 0 does not run yet: the request is sent when it does"), pending("a")},
      {"rank 0 has taken it", reporting(asked_for("a"), said(pending("a", ""))), pending("a"),
       pending("a", "rank 0 saves it")},
      {"rank 0 says what it waits for", reporting(asked_for("a"), said(pending("a", "validating"))), pending("a"),
       pending("a", "validating")},
      {"it is saved", reporting(asked_for("a"), said(done("a"))), pending("a"), done("a")},
      {"the save failed", reporting(asked_for("a"), said(failed("a", "no space"))), pending("a"),
       failed("a", "no space")},
      {"rank 0's words are cut to what the status holds",
       reporting(asked_for("a"), said(failed("a", std::string(2'000, 'x')))), pending("a"),
       failed("a", "... " + std::string(1'020, 'x'))},
      {"a later attempt's word is none", reporting(asked_for("a"), said(done("a")), 2), pending("a"), pending("a")},
      {"nor is an earlier one's", reporting(asked_for("a").attempt(2).with(take_requests), said(done("a")), 1),
       pending("a"), pending("a")},
      {"nor is the word about another id", reporting(asked_for("a"), said(done("b"))), pending("a"), pending("a")},
      {"rank 0's last words count", asked_for("a").ended(0, 1, last_words), pending("a"), done("a")},
      {"one that is done is never asked for again", asked_for("a"), done("a"), done("a")},
      {"nor is one that failed", asked_for("a"), failed("a", "no space"), failed("a", "no space")},
      {"an answered one stays when the annotation goes", asked_for(""), done("a"), done("a")},
      {"one without an answer is withdrawn with its annotation", asked_for(""), pending("a"),
       failed("a", "the annotation was taken away before there was an answer")},
      {"a newer id comes after the answer", asked_for("b"), pending("a"), pending("a")},
      {"and then at once", reporting(asked_for("b"), said(done("a"))), pending("a"), asked_now(pending("b"))},
      {"or while nobody is asked", asked_for("b").waiting(0), pending("a", "x"),
       asked_now(pending("b", "rank 0 does not run yet: the request is sent when it does"))},
      {"a group that forms is asked when it runs",
       asked_for("a").unformed().waiting(0),
       {},
       asked_now(pending("a", "rank 0 does not run yet: the request is sent when it does"))},
      {"a job that is suspended waits",
       asked_for("a", a_job().checkpoint().suspended()).phase(Phase::suspended),
       {},
       asked_now(pending("a", "the job does not run: the request is sent when it trains again"))},
      {"pods that an older operator made are not asked",
       asked_for("a").with([](Observed& observed) {
         for (resource::Pod& pod : observed.pods) pod.request_token.clear();
       }),
       {},
       asked_now(pending("a", "the pods of this attempt take no requests: the request is sent in the next attempt"))},
      {"a finished job", succeeded(asked_for("a")), {}, failed("a", "the job has ended: nothing trains any more")},
      {"a job that finished meanwhile", succeeded(asked_for("a")), pending("a"),
       failed("a", "the job ended before the checkpoint was saved")},
      {"a container of the user's own",
       asked_for("a", a_job().checkpoint().without_training().container()),
       {},
       failed("a", "a container of your own does not take checkpoint requests")},
      {"a job without checkpoints",
       asked_for("a", a_job()),
       {},
       failed("a", "spec.checkpoint is not set: there is nowhere to save to")},
      {"an id of the operator's own",
       asked_for("suspend-3"),
       {},
       failed("suspend-3", "ids that begin with suspend- are the operator's own")},
      {"an id of another form", asked_for("a b/c"), {}, failed("a?b?c", form)},
      {"is refused once", asked_for("a b/c"), failed("a?b?c", form), failed("a?b?c", form)},
      {"an id of another form that is just short enough",
       asked_for("/" + std::string(62, 'x')),
       {},
       failed("?" + std::string(62, 'x'), form)},
      {"an id that is too long", asked_for(std::string(64, 'x')), {}, failed(std::string(62, 'x') + "?", form)},
  };
  for (const RequestCase& row : rows) {
    Observed observed = row.observed;
    observed.job.status.checkpoint_request = row.stored;
    api::TrainingJobStatus status = observed.job.status;
    take_checkpoint_requests(status, observed, members_of(observed), later);
    EXPECT_EQ(status.checkpoint_request, row.expected)
        << row.sentence << ": "
        << (status.checkpoint_request
                ? fmt::format("{} {} {}", status.checkpoint_request->id, to_string(status.checkpoint_request->state),
                              status.checkpoint_request->message)
                : "nothing");
    // A second call changes nothing.
    observed.job.status = status;
    take_checkpoint_requests(status, observed, members_of(observed), later + 1h);
    EXPECT_EQ(status, observed.job.status) << row.sentence;
  }
}

TEST(TakeCheckpointRequests, FollowsTheRequestOfASuspensionInTheSameWay) {
  const CheckpointRequest asked = pending("suspend-3");
  struct Row {
    std::string sentence;
    Observed observed;
    CheckpointRequest expected;
  };
  const std::vector<Row> rows{
      {"rank 0 has said nothing", asked_for("").phase(Phase::suspending), asked},
      {"rank 0 has taken it",
       reporting(asked_for("").phase(Phase::suspending), said(pending("suspend-3", "validating"))),
       pending("suspend-3", "validating")},
      {"it is saved", reporting(asked_for("").phase(Phase::suspending), said(done("suspend-3"))), done("suspend-3")},
      {"the job ended instead", succeeded(asked_for("")),
       failed("suspend-3", "the job ended before the checkpoint was saved")},
  };
  for (const Row& row : rows) {
    api::TrainingJobStatus status = row.observed.job.status;
    status.suspend_request = pending("suspend-3", "");
    take_checkpoint_requests(status, row.observed, members_of(row.observed), later);
    EXPECT_EQ(status.suspend_request, row.expected) << row.sentence;
  }
}

TEST(RequestToSend, IsThePendingRequestOfAJobWithAnAttempt) {
  api::TrainingJobStatus status = asked_for("a").build().job.status;
  EXPECT_EQ(request_to_send(status), std::nullopt);
  status.checkpoint_request = pending("a");
  EXPECT_EQ(request_to_send(status), (RequestToSend{.id = "a", .is_last = false}));
  for (const CheckpointRequest& answered : {done("a"), failed("a", "no space")}) {
    status.checkpoint_request = answered;
    EXPECT_EQ(request_to_send(status), std::nullopt);
  }
  status.checkpoint_request = pending("a");
  for (const Phase phase : {Phase::suspended, Phase::suspending, Phase::succeeded, Phase::failed}) {
    status.phase = phase;
    EXPECT_EQ(request_to_send(status), std::nullopt);
  }
  status.phase = Phase::suspending;
  status.suspend_request = pending("suspend-3");
  EXPECT_EQ(request_to_send(status), (RequestToSend{.id = "suspend-3", .is_last = true}));
  status.suspend_request = done("suspend-3");
  EXPECT_EQ(request_to_send(status), std::nullopt);
}

TEST(MakePlan, RecordsWhatIsAskedForBeforeAnybodyIsAsked) {
  const Plan plan = make_plan(asked_for("a"), later);
  ASSERT_TRUE(plan.status);
  EXPECT_EQ(plan.status->checkpoint_request, asked_now(pending("a")));
  EXPECT_TRUE(plan.actions.empty());
  EXPECT_TRUE(plan.events.empty());
}

TEST(MakePlan, RefusesWhatIsAskedOfAFinishedJobInItsStatus) {
  const Plan plan = make_plan(succeeded(asked_for("a")), later);
  ASSERT_TRUE(plan.status);
  EXPECT_EQ(plan.status->checkpoint_request->state, RequestState::failed);
  EXPECT_EQ(plan.status->phase, Phase::succeeded);
}

}  // namespace
}  // namespace trainyard::plan
