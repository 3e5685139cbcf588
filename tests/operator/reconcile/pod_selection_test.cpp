#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/operator/reconcile/executor_fixture.hpp"

namespace trainyard::reconcile {
namespace {

using fakes::ApiCall;
using fakes::Fault;
using nlohmann::json;

TEST_F(ExecutorTest, SelectsTheNewPodsOnceAllAreCreatedAndDoesNotWaitForDeletes) {
  add_service();
  auto actions = delete_all_pods();
  job.status.attempt = 2;
  for (std::int64_t index = 0; index < 40; ++index) actions.push_back(create(index));
  actions.emplace_back(plan::SelectPods{.attempt = 2});
  fakes::Gate deletes;
  fakes::Gate selection;
  selection.open();
  int creates = 0;
  int creates_at_selection = 0;
  faulty.set_schedule([&](const ApiCall& call) -> std::optional<Fault> {
    if (call.verb == "delete") return Fault{.kind = Fault::Kind::delayed, .gate = &deletes};
    if (call.verb == "create") ++creates;
    if (call.verb == "patch") {
      creates_at_selection = creates;
      selection.pass();
    }
    return std::nullopt;
  });
  std::jthread operator_thread{[&] { EXPECT_TRUE(executor.act(job, actions)); }};
  selection.wait_for_arrival();
  deletes.open();
  operator_thread.join();
  EXPECT_EQ(creates_at_selection, 40);
  EXPECT_EQ(selector_on_server(), (json{{"trainyard.dev/job", "smoke"}, {"trainyard.dev/attempt", "2"}}));
  EXPECT_EQ(caches.services.find({.name_space = "research", .name = manifest::service_name(job)})->attempt, 2);
}

TEST_F(ExecutorTest, SelectsAlsoWhereNoPodIsMissing) {
  add_service();
  EXPECT_TRUE(executor.act(job, {plan::SelectPods{.attempt = 1}}));
  EXPECT_EQ(selector_on_server().at("trainyard.dev/attempt"), "1");
}

TEST_F(ExecutorTest, DeselectsThePodsBeforeItDeletesThem) {
  add_service();
  ASSERT_TRUE(executor.act(job, {plan::SelectPods{.attempt = 1}}));
  auto actions = delete_all_pods();
  actions.emplace_back(plan::DeselectPods{});
  std::string selected;
  faulty.set_schedule([&](const ApiCall& call) -> std::optional<Fault> {
    if (call.verb == "delete" && selected.empty()) selected = selector_on_server().at("trainyard.dev/attempt");
    return std::nullopt;
  });
  EXPECT_TRUE(executor.act(job, actions));
  EXPECT_EQ(selected, "0");
}

TEST_F(ExecutorTest, SelectsNoPodsOfAnAttemptThatIsNotWhole) {
  add_service();
  job.status.attempt = 2;
  options.pod_calls_at_once_max = 1;
  fail_where([this](const ApiCall& call) { return call.name == manifest::pod_name(job, 2, 0); },
             {ErrorKind::forbidden, "exceeded quota"});
  EXPECT_TRUE(executor.act(job, {create(0), create(1), plan::SelectPods{.attempt = 2}})) << "a refusal is remembered";
  EXPECT_EQ(selector_on_server().at("trainyard.dev/attempt"), "0");
  fail_where([](const ApiCall& call) { return call.plural == "services"; }, {ErrorKind::forbidden, "exceeded quota"});
  EXPECT_TRUE(executor.act(
      job, {plan::CreateService{.service = manifest::build_service(job)}, create(0), plan::SelectPods{.attempt = 2}}));
  faulty.set_schedule({});
  EXPECT_EQ(selector_on_server().at("trainyard.dev/attempt"), "0");
}

TEST_F(ExecutorTest, ReportsASelectionThatFails) {
  add_service();
  fail_where([](const ApiCall& call) { return call.verb == "patch"; }, {ErrorKind::unavailable, "no connection"});
  for (const auto& actions : {std::vector<plan::Action>{plan::SelectPods{.attempt = 1}},
                              std::vector<plan::Action>{create(0), plan::SelectPods{.attempt = 1}}}) {
    const auto acted = executor.act(job, actions);
    ASSERT_FALSE(acted);
    EXPECT_EQ(acted.error().message, "no connection");
  }
}

TEST_F(ExecutorTest, ForgetsARefusalOfTheSelectionOnceItSucceeds) {
  add_service();
  fail_where([](const ApiCall& call) { return call.verb == "patch"; }, {ErrorKind::forbidden, "denied by a webhook"});
  EXPECT_TRUE(executor.act(job, {plan::SelectPods{.attempt = 1}}));
  EXPECT_TRUE(memory.recall(job_key, job.metadata.uid).refusal);
  faulty.set_schedule({});
  EXPECT_TRUE(executor.act(job, {plan::SelectPods{.attempt = 1}}));
  EXPECT_FALSE(memory.recall(job_key, job.metadata.uid).refusal);
}

TEST_F(ExecutorTest, SelectsNoPodsForAServiceThatIsNotTheJobsAnyMore) {
  const plan::Action selection = plan::SelectPods{.attempt = 1};
  EXPECT_TRUE(executor.act(job, {selection})) << "there is none yet";
  const resource::Service service = add_service();
  const control::ObjectKey key{.name_space = "research", .name = service.metadata.name};
  ASSERT_TRUE(api.remove(kube::services, key.name_space, key.name));
  const auto gone = executor.act(job, {selection});
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().kind, ErrorKind::not_found);
  EXPECT_FALSE(caches.services.find(key)) << "the next plan creates it";
  json foreign = manifest::build_service(job);
  foreign["metadata"]["ownerReferences"][0]["uid"] = "uid-of-another-job";
  const auto theirs = resource::parse_service(*api.create(kube::services, key.name_space, foreign));
  caches.services.put(*theirs);
  EXPECT_TRUE(executor.act(job, {selection}));
  resource::Service predecessor = service;
  predecessor.metadata.uid = "uid-of-a-service-that-was-replaced";
  caches.services.put(predecessor);
  EXPECT_FALSE(executor.act(job, {selection}));
  EXPECT_EQ(selector_on_server().at("trainyard.dev/attempt"), "0") << "another job's";
}

}  // namespace
}  // namespace trainyard::reconcile
