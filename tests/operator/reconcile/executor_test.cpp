#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "operator/manifest/names.hpp"
#include "tests/fakes/refusing_api.hpp"
#include "tests/operator/reconcile/executor_fixture.hpp"

namespace trainyard::reconcile {
namespace {

using fakes::ApiCall;
using fakes::Fault;
using nlohmann::json;
using namespace std::chrono_literals;

TEST_F(ExecutorTest, CreatesTheNextAttemptWhileThePodsOfTheLastAreStillBeingDeleted) {
  for (std::int64_t index = 3; index < 40; ++index) add_pod(index);
  auto actions = delete_all_pods();
  job.status.attempt = 2;
  for (std::int64_t index = 0; index < 40; ++index) actions.push_back(create(index));
  fakes::Gate deletes;
  fakes::Gate last_create;
  last_create.open();
  std::vector<std::string> creates;
  faulty.set_schedule([&](const ApiCall& call) -> std::optional<Fault> {
    if (call.verb == "delete") return Fault{.kind = Fault::Kind::delayed, .gate = &deletes};
    creates.push_back(call.name);
    if (creates.size() == 40) last_create.pass();
    return std::nullopt;
  });
  std::jthread operator_thread{[&] { EXPECT_TRUE(executor.act(job, actions)); }};
  last_create.wait_for_arrival();
  EXPECT_EQ(creates.front(), manifest::pod_name(job, 2, 0));
  deletes.open();
  operator_thread.join();
  const auto listed = api.list(kube::pods, {});
  std::set<std::string> left;
  for (const json& pod : listed->items) left.insert(pod.at("metadata").at("name"));
  EXPECT_EQ(left, (std::set<std::string>{creates.begin(), creates.end()}));
}

TEST_F(ExecutorTest, TakesCreatesForHealthyAgainOnceOneSucceeds) {
  options.pod_calls_at_once_max = 1;
  const auto failing_since = [&](std::int64_t created, std::int64_t refused) {
    fail_where([=, this](const ApiCall& call) { return call.name == manifest::pod_name(job, 2, refused); },
               {ErrorKind::conflict, "resourcequotas small: the object has been modified"});
    EXPECT_FALSE(executor.act(job, {create(created), create(refused)}));
    return memory.recall({.name_space = "research", .name = "smoke"}, job.metadata.uid).create_failure->since;
  };
  job.status.attempt = 2;
  EXPECT_EQ(failing_since(0, 1), clock.now());
  clock.advance(4s);
  EXPECT_EQ(failing_since(1, 2), clock.now());
}

TEST_F(ExecutorTest, DeletesTheOtherPodsWhereOneCannotBeDeleted) {
  fail_where([](const ApiCall& call) { return call.verb == "delete" && call.name.ends_with("-1"); },
             {ErrorKind::forbidden, "denied by a webhook"});
  const auto acted = executor.act(job, delete_all_pods());
  ASSERT_FALSE(acted);
  EXPECT_EQ(acted.error().message, "denied by a webhook");
  EXPECT_EQ(api.list(kube::pods, {})->items.size(), 1U);
}

TEST_F(ExecutorTest, DeletesNothingMoreOnceTheServerFails) {
  options.pod_calls_at_once_max = 1;
  fail_where([](const ApiCall& call) { return call.verb == "delete"; }, {ErrorKind::unavailable, "no connection"});
  EXPECT_FALSE(executor.act(job, delete_all_pods()));
  EXPECT_EQ(faulty.calls(), 1);
}

TEST_F(ExecutorTest, NeitherLetsGoOfTheJobNorDeletesItsServiceWhileAPodCannotBeDeleted) {
  for (const plan::Action& last : std::vector<plan::Action>{
           plan::RemoveFinalizer{}, plan::DeleteJob{.uid = job.metadata.uid}, plan::DeleteService{.name = "a"}}) {
    fail_where([](const ApiCall& call) { return call.verb == "delete" && call.plural == "pods"; },
               {ErrorKind::forbidden, "denied by a webhook"});
    auto actions = delete_all_pods();
    actions.insert(actions.begin(), last);
    EXPECT_FALSE(executor.act(job, actions));
    EXPECT_TRUE(faulty.done().empty());
  }
}

TEST_F(ExecutorTest, DeletesPodsAlsoWhereNoneCanBeCreated) {
  job.status.attempt = 2;
  auto actions = delete_all_pods();
  actions.push_back(create(0));
  fail_where([](const ApiCall& call) { return call.verb == "create"; }, {ErrorKind::forbidden, "exceeded quota"});
  EXPECT_TRUE(executor.act(job, actions)) << "a refusal is remembered";
  EXPECT_TRUE(api.list(kube::pods, {})->items.empty());
}

TEST_F(ExecutorTest, NamesBothErrorsWhereCreatesAndDeletesFail) {
  job.status.attempt = 2;
  auto actions = delete_all_pods();
  actions.push_back(create(0));
  faulty.set_schedule([](const ApiCall& call) -> std::optional<Fault> {
    if (call.verb == "create") return Fault{.error = {ErrorKind::unavailable, "create: no"}};
    return Fault{.error = {ErrorKind::throttled, "delete: slow down", 3s}};
  });
  const auto acted = executor.act(job, actions);
  ASSERT_FALSE(acted);
  EXPECT_EQ(acted.error(), (Error{ErrorKind::unavailable, "create: no; delete: slow down", 3s}));
  EXPECT_TRUE(memory.recall({.name_space = "research", .name = "smoke"}, job.metadata.uid).create_failure);
  faulty.set_schedule([](const ApiCall& call) -> std::optional<Fault> {
    const bool is_create = call.verb == "create";
    return Fault{.error = {ErrorKind::throttled, is_create ? "create: no" : "delete: no", is_create ? 5s : 3s}};
  });
  EXPECT_EQ(executor.act(job, actions).error(), (Error{ErrorKind::throttled, "create: no; delete: no", 5s}))
      << "both are waited for";
}

TEST_F(ExecutorTest, CreatesNoPodWhereTheServiceIsRefused) {
  job.status.attempt = 2;
  json service = pod_of(0);
  service["kind"] = "Service";
  service["metadata"]["name"] = manifest::service_name(job);
  fail_where([](const ApiCall& call) { return call.plural == "services"; }, {ErrorKind::forbidden, "exceeded quota"});
  EXPECT_TRUE(executor.act(job, {plan::CreateService{.service = service}, create(0)})) << "a refusal is remembered";
  EXPECT_TRUE(faulty.done().empty());
  const auto refusal = memory.recall(job_key, job.metadata.uid).refusal;
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->message, "exceeded quota");
}

TEST_F(ExecutorTest, TakesAPodThatTheServerFindsInvalidForARefusal) {
  job.status.attempt = 2;
  fail_where([](const ApiCall& call) { return call.verb == "create"; }, {ErrorKind::invalid, "unknown field"});
  EXPECT_TRUE(executor.act(job, {create(0)}));
  const JobMemory remembered = memory.recall(job_key, job.metadata.uid);
  ASSERT_TRUE(remembered.refusal);
  EXPECT_EQ(remembered.refusal->kind, ErrorKind::invalid);
  EXPECT_FALSE(remembered.create_failure);
}

TEST_F(ExecutorTest, TakesNobodyElsesPodForTheOneThatItWasToCreate) {
  job.status.attempt = 2;
  json foreign = pod_of(0);
  foreign["metadata"]["ownerReferences"][0]["uid"] = "uid-of-another-job";
  ASSERT_TRUE(api.create(kube::pods, "research", foreign));
  EXPECT_TRUE(executor.act(job, {create(0)})) << "a refusal is remembered";
  const auto refusal = memory.recall(job_key, job.metadata.uid).refusal;
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->kind, ErrorKind::already_exists);
  EXPECT_EQ(refusal->message, "Pod " + manifest::pod_name(job, 2, 0) +
                                  " exists and belongs to somebody else: delete it, or give the job another name");
  EXPECT_EQ(caches.pods.size(), 3U);
}

TEST_F(ExecutorTest, FailsWhereAPodWasReportedAsDeletedAndStillExists) {
  job.status.attempt = 2;
  const auto pod = resource::parse_pod(*api.create(kube::pods, "research", pod_of(0)));
  caches.pods.erase({.name_space = "research", .name = pod->metadata.name}, pod->metadata.uid);
  const auto acted = executor.act(job, {create(0)});
  ASSERT_FALSE(acted);
  EXPECT_EQ(acted.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(acted.error().message, "Pod " + pod->metadata.name + " was reported as deleted and still exists");
}

TEST_F(ExecutorTest, TellsOfEachCreation) {
  std::vector<control::ObjectKey> told;
  options.pod_calls_at_once_max = 1;
  options.on_creation = [&](const control::ObjectKey& created) { told.push_back(created); };
  job.status.attempt = 2;
  EXPECT_TRUE(executor.act(job, {create(0), create(1)}));
  EXPECT_EQ(told, (std::vector<control::ObjectKey>{job_key, job_key}));
}

TEST_F(ExecutorTest, TakesCreatesForHealthyAgainOnceAWholePlanSucceeds) {
  memory.note_failure(job_key, job.metadata.uid, {ErrorKind::unavailable, "no connection"}, clock.now());
  EXPECT_TRUE(executor.act(job, {}));
  EXPECT_FALSE(memory.recall(job_key, job.metadata.uid).create_failure);
}

TEST_F(ExecutorTest, DoesNotTakeAPodForGoneWhereTheServerDoesNotAnswer) {
  fail_where([](const ApiCall& call) { return call.verb == "get"; }, {ErrorKind::unavailable, "no connection"});
  const auto gone = executor.are_gone(job, {manifest::pod_name(job, 1, 7)});
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().message, "no connection");
}

TEST_F(ExecutorTest, DoesNotTakeAnUnlabelledPodForGoneThatItCannotDelete) {
  json unlabelled = pod_of(7);
  unlabelled["metadata"].erase("labels");
  ASSERT_TRUE(api.create(kube::pods, "research", unlabelled));
  fail_where([](const ApiCall& call) { return call.verb == "delete"; }, {ErrorKind::forbidden, "denied"});
  const auto gone = executor.are_gone(job, {manifest::pod_name(job, 1, 7)});
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().message, "denied");
}

TEST_F(ExecutorTest, TakesAllPodsTogetherForGoneOnlyIfEachIs) {
  const std::string there = caches.pods.keys().front().name;
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{there, "missing"}, std::vector<std::string>{"missing", there}}) {
    const auto gone = executor.are_gone(job, names);
    ASSERT_TRUE(gone) << gone.error().message;
    EXPECT_FALSE(*gone);
  }
  EXPECT_TRUE(*executor.are_gone(job, {"missing", "missing too"}));
  EXPECT_TRUE(*executor.are_gone(job, {}));
}

TEST_F(ExecutorTest, SaysWhyAJobCannotBeReadAgainAfterAConflict) {
  caches.jobs.put(job);
  faulty.set_schedule([](const ApiCall& call) -> std::optional<Fault> {
    if (call.verb == "get") return Fault{.error = {ErrorKind::unavailable, "no connection"}};
    return Fault{.error = {ErrorKind::conflict, "the object has been modified"}};
  });
  const auto written = executor.write_status(job, {.phase = api::Phase::failed});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message, "no connection") << "the cache has no other version yet";
}

TEST_F(ExecutorTest, RecordsTheOtherEventsWhereOneFailsAndNamesItsInstance) {
  options.instance = "operator-0";
  fail_where([](const ApiCall& call) { return call.name.ends_with("-first"); }, {ErrorKind::forbidden, "no right"});
  executor.record_events(job, {{.reason = "First", .note = "1"}, {.reason = "Second", .note = "2"}});
  const auto events = api.list(kube::core_events, {})->items;
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].at("reason"), "Second");
  EXPECT_EQ(events[0].at("source").at("host"), "operator-0");
}

TEST_F(ExecutorTest, AsksWhoHasTheNameWhereADeleteMeetsAConflict) {
  const control::ObjectKey key{.name_space = "research", .name = manifest::pod_name(job, 1, 0)};
  const plan::Action deletion = plan::DeletePod{.name = key.name, .uid = caches.pods.find(key)->metadata.uid};
  const auto fail_deletes_and = [&](const std::optional<Error>& get_error) {
    faulty.set_schedule([=](const ApiCall& call) -> std::optional<Fault> {
      if (call.verb == "delete") return Fault{.error = {ErrorKind::conflict, "the precondition failed"}};
      return get_error ? std::optional{Fault{.error = *get_error}} : std::nullopt;
    });
    return executor.act(job, {deletion});
  };
  const auto still_there = fail_deletes_and({});
  ASSERT_FALSE(still_there);
  EXPECT_EQ(still_there.error().kind, ErrorKind::conflict);
  const auto unanswered = fail_deletes_and(Error{ErrorKind::unavailable, "no connection"});
  ASSERT_FALSE(unanswered);
  EXPECT_EQ(unanswered.error().message, "no connection");
  EXPECT_TRUE(caches.pods.find(key));
  EXPECT_TRUE(fail_deletes_and(Error{ErrorKind::not_found, "no such pod"}));
  EXPECT_FALSE(caches.pods.find(key));
}

TEST_F(ExecutorTest, KeepsTheServiceInMindThatItCannotDelete) {
  json service = pod_of(0);
  service["kind"] = "Service";
  service["metadata"]["name"] = "smoke";
  const auto stored = resource::parse_service(*api.create(kube::services, "research", service));
  caches.services.put(*stored);
  fail_where([](const ApiCall& call) { return call.verb == "delete"; }, {ErrorKind::forbidden, "denied"});
  EXPECT_FALSE(executor.act(job, {plan::DeleteService{.name = "smoke", .uid = stored->metadata.uid}}));
  EXPECT_EQ(caches.services.size(), 1U);
}

TEST_F(ExecutorTest, WritesNoStatusOfAJobThatWasAppliedAgain) {
  api::TrainingJob predecessor = job;
  predecessor.metadata.uid = "uid-of-the-predecessor";
  EXPECT_FALSE(executor.write_status(predecessor, {.phase = api::Phase::failed}));
  EXPECT_FALSE(api.get(kube::training_jobs, "research", "smoke")->contains("status"));
}

TEST_F(ExecutorTest, RemembersTheVersionOfAJobThatGotItsFinalizerAndNoRefusal) {
  caches.jobs.put(job);
  memory.note_refusal(job_key, job.metadata.uid, {ErrorKind::forbidden, "cannot patch"}, clock.now());
  ASSERT_TRUE(executor.act(job, {plan::AddFinalizer{}}));
  const JobMemory remembered = memory.recall(job_key, job.metadata.uid);
  EXPECT_FALSE(remembered.refusal);
  EXPECT_EQ(remembered.written_version, caches.jobs.find(job_key)->metadata.resource_version);
  EXPECT_NE(remembered.written_version, "");
}

TEST_F(ExecutorTest, SetsNoFinalizerOfASuccessor) {
  api::TrainingJob successor = job;
  successor.metadata.uid = "uid-of-the-successor";
  caches.jobs.put(successor);
  EXPECT_TRUE(executor.act(job, {plan::RemoveFinalizer{}}));
  EXPECT_EQ(faulty.calls(), 0);
}

TEST_F(ExecutorTest, ReadsTheJobAgainWhereItsFinalizersCannotBeChanged) {
  const auto patched_with = [&](ErrorKind patch_error, const std::optional<Error>& get_error) {
    caches.jobs.put(job);
    faulty.set_schedule([=](const ApiCall& call) -> std::optional<Fault> {
      if (call.verb == "patch") return Fault{.error = {patch_error, "not patched"}};
      return get_error ? std::optional{Fault{.error = *get_error}} : std::nullopt;
    });
    return executor.act(job, {plan::RemoveFinalizer{}});
  };
  const Error unavailable{ErrorKind::unavailable, "no connection"};
  const Error gone{ErrorKind::not_found, "no such job"};
  EXPECT_TRUE(patched_with(ErrorKind::conflict, {})) << "the next plan has the present version";
  const auto unread = patched_with(ErrorKind::conflict, unavailable);
  ASSERT_FALSE(unread);
  EXPECT_EQ(unread.error(), unavailable);
  EXPECT_EQ(caches.jobs.size(), 1U);
  EXPECT_TRUE(patched_with(ErrorKind::not_found, gone));
  EXPECT_EQ(caches.jobs.size(), 0U);
}

TEST_F(ExecutorTest, FailsWhereADeletedJobThatHasFinalizersCannotBeRead) {
  caches.jobs.put(job);
  job.metadata.finalizers = {"other/finalizer"};
  fail_where([](const ApiCall& call) { return call.verb == "get"; }, {ErrorKind::unavailable, "no connection"});
  EXPECT_FALSE(executor.act(job, {plan::DeleteJob{.uid = job.metadata.uid}}));
}

TEST_F(ExecutorTest, MayRepeatEveryDelete) {
  const auto actions = delete_all_pods();
  EXPECT_TRUE(executor.act(job, actions));
  EXPECT_TRUE(executor.act(job, actions));
  EXPECT_EQ(caches.pods.size(), 0U);
}

TEST_F(ExecutorTest, TakesNobodyElsesPodForOneThatTheJobMisses) {
  json labelled = pod_of(7);
  json unlabelled = pod_of(8);
  unlabelled["metadata"].erase("labels");
  for (json* pod : {&labelled, &unlabelled}) {
    (*pod)["metadata"]["ownerReferences"][0]["uid"] = "uid-of-another-job";
    ASSERT_TRUE(api.create(kube::pods, "research", *pod));
  }
  const auto gone = executor.are_gone(job, {manifest::pod_name(job, 1, 7), manifest::pod_name(job, 1, 8)});
  ASSERT_TRUE(gone) << gone.error().message;
  EXPECT_TRUE(*gone);
  EXPECT_EQ(caches.pods.size(), 3U) << "it would hold up a job that does not own it";
  EXPECT_EQ(api.list(kube::pods, {})->items.size(), 5U) << "it is not the operator's to delete";
}

TEST_F(ExecutorTest, DeletesNoPodThatHasTakenTheNameMeanwhile) {
  const control::ObjectKey key{.name_space = "research", .name = manifest::pod_name(job, 1, 0)};
  const resource::Pod old = *caches.pods.find(key);
  const plan::Action deletion = plan::DeletePod{.name = key.name, .uid = old.metadata.uid};
  ASSERT_TRUE(api.remove(kube::pods, key.name_space, key.name, {}));
  const auto successor = resource::parse_pod(*api.create(kube::pods, "research", pod_of(0)));
  ASSERT_TRUE(executor.act(job, {deletion}));
  EXPECT_FALSE(caches.pods.find(key)) << "the deleted pod is gone";
  caches.pods.put(*successor);
  ASSERT_TRUE(executor.act(job, {deletion}));
  EXPECT_EQ(caches.pods.find(key), *successor);
  EXPECT_TRUE(api.get(kube::pods, key.name_space, key.name));
}

TEST_F(ExecutorTest, RemembersWhenADeletedPodIsGoneAndKeepsATimeThatIsKnown) {
  const control::ObjectKey first{.name_space = "research", .name = manifest::pod_name(job, 1, 0)};
  const control::ObjectKey second{.name_space = "research", .name = manifest::pod_name(job, 1, 1)};
  resource::Pod leaving = *caches.pods.find(second);
  leaving.metadata.deletion_time = clock.now() + 30s;
  caches.pods.put(leaving);
  ASSERT_TRUE(executor.act(job, delete_all_pods()));
  EXPECT_EQ(caches.pods.find(first)->metadata.deletion_time, clock.now());
  EXPECT_EQ(caches.pods.find(second)->metadata.deletion_time, clock.now() + 30s) << "its grace is not over";
}

TEST_F(ExecutorTest, DeletesAJobWhoseLastFinalizerIsRemovedAtTheSameTime) {
  caches.jobs.put(job);
  job.metadata.finalizers = {"other/finalizer"};  // It was taken off after the job was planned.
  const auto acted = executor.act(job, {plan::DeleteJob{.uid = job.metadata.uid}});
  EXPECT_TRUE(acted) << acted.error().message;
  EXPECT_EQ(caches.jobs.size(), 0U);
}

TEST_F(ExecutorTest, DoesNotTakeARefusedFinalizerForOneThatIsSet) {
  caches.jobs.put(job);
  fail_where([](const ApiCall& call) { return call.verb == "patch"; },
             {ErrorKind::invalid, "no new finalizers can be added if the object is being deleted"});
  const auto acted = executor.act(job, {plan::AddFinalizer{}});
  ASSERT_FALSE(acted);
  EXPECT_EQ(acted.error().kind, ErrorKind::conflict) << "the job is read again";
  EXPECT_TRUE(memory.recall({.name_space = "research", .name = "smoke"}, job.metadata.uid).create_failure);
}

/// A server without pods that answers no request until six are waiting, and then waits a moment for a seventh.
class SlowApi final : public fakes::RefusingApi {
 public:
  Result<json> get(const kube::ResourceType&, std::string_view, std::string_view) override { return answer_slowly(); }
  Result<void> remove(const kube::ResourceType&, std::string_view, std::string_view,
                      const kube::DeleteOptions&) override {
    return answer_slowly().map([](const json&) {});
  }
  int asking_max() {
    const std::scoped_lock lock{mutex_};
    return asking_max_;
  }

 private:
  Result<json> answer_slowly() {
    std::unique_lock lock{mutex_};
    asking_max_ = std::max(asking_max_, ++asking_);
    changed_.notify_all();
    changed_.wait_for(lock, 10s, [&] { return asking_max_ >= 6; });
    changed_.wait_for(lock, 1ms, [&] { return asking_max_ > 6; });
    --asking_;
    return fail(ErrorKind::not_found, "no such pod");
  }

  std::mutex mutex_;  // guards all
  std::condition_variable changed_;
  int asking_ = 0;
  int asking_max_ = 0;
};

TEST(AreGone, AsksAboutPodsConcurrentlyAndWithinBounds) {
  SlowApi api;
  const fakes::FakeClock clock;
  Caches caches;
  Memory memory;
  const ReconcilerOptions options{.pod_calls_at_once_max = 6};
  Executor executor{api, clock, caches, memory, options};
  const auto gone = executor.are_gone(builders::a_job(), std::vector<std::string>(40, "pod"));
  ASSERT_TRUE(gone);
  EXPECT_TRUE(*gone);
  EXPECT_EQ(api.asking_max(), 6);
}

TEST(Act, ChangesPodsConcurrentlyAndWithinBounds) {
  SlowApi api;
  const fakes::FakeClock clock;
  Caches caches;
  Memory memory;
  const ReconcilerOptions options{.pod_calls_at_once_max = 6};
  Executor executor{api, clock, caches, memory, options};
  EXPECT_TRUE(
      executor.act(builders::a_job(), std::vector<plan::Action>(40, plan::DeletePod{.name = "pod", .uid = "u"})));
  EXPECT_EQ(api.asking_max(), 6);
}

}  // namespace
}  // namespace trainyard::reconcile
