#include "local/memory_api.hpp"

#include <gtest/gtest.h>

#include "tests/fakes/fake_clock.hpp"

namespace trainyard::local {
namespace {

using fakes::FakeClock;
using namespace std::chrono_literals;

json a_job(const std::string& name = "smoke") {
  return {{"metadata", {{"name", name}}}, {"spec", {{"replicas", 2}}}};
}

json a_pod(const std::string& name = "p-0") {
  return {{"metadata", {{"name", name}}},
          {"spec", {{"containers", json::array({{{"name", "worker"}}})}, {"terminationGracePeriodSeconds", 30}}}};
}

json owned_by(json object, const json& owner) {
  object["metadata"]["ownerReferences"].push_back({{"uid", owner.at("metadata").at("uid")}, {"controller", true}});
  return object;
}

class MemoryApiTest : public testing::Test {
 protected:
  /// "<kind>: <message>" for an error, "" for success.
  template <typename T>
  static std::string told(const Result<T>& result) {
    return result ? "" : std::string{to_string(result.error().kind)} + ": " + result.error().message;
  }
  json create(const kube::ResourceType& type, const json& object) {
    auto created = api_.create(type, "default", object);
    EXPECT_TRUE(created) << told(created);
    return created.value_or(json{});
  }
  json running_pod(const std::string& name = "p-0") {
    create(kube::pods, a_pod(name));
    json bound = api_.bind_pod("default", name, "here").value();
    bound["status"]["phase"] = "Running";
    return api_.update_status(kube::pods, "default", bound).value();
  }
  std::size_t count(const kube::ResourceType& type) { return api_.list(type, {}).value().items.size(); }

  FakeClock clock_;
  MemoryApi api_{clock_, {.uid_seed = 1}};
};

TEST_F(MemoryApiTest, CreateFillsInWhatTheServerFillsIn) {
  json job = a_job();
  job["status"] = {{"phase", "Running"}};
  json created = create(kube::training_jobs, job);
  EXPECT_EQ(created["metadata"]["uid"].get<std::string>().size(), 36U);
  created["metadata"].erase("uid");
  EXPECT_EQ(created, (json{{"apiVersion", "trainyard.dev/v1alpha1"},
                           {"kind", "TrainingJob"},
                           {"metadata",
                            {{"name", "smoke"},
                             {"namespace", "default"},
                             {"generation", 1},
                             {"resourceVersion", "1"},
                             {"creationTimestamp", "2026-01-01T00:00:00Z"}}},
                           {"spec", {{"replicas", 2}}}}));
}

TEST_F(MemoryApiTest, CreateRefusesWhatTheServerRefuses) {
  create(kube::services, {{"metadata", {{"name", "smoke"}}}});
  json versioned = a_job();
  versioned["metadata"]["resourceVersion"] = "7";
  json elsewhere = a_job();
  elsewhere["metadata"]["namespace"] = "other";
  const std::vector<std::tuple<kube::ResourceType, json, std::string>> cases{
      {kube::services, json{{"metadata", {{"name", "smoke"}}}},
       "already_exists: create Service default/smoke: services \"smoke\" already exists"},
      {kube::training_jobs, json::object(),
       "invalid: create TrainingJob default/: TrainingJob is invalid: metadata.name: Required value: name or "
       "generateName is required"},
      {kube::training_jobs, json::array(),
       "invalid: create TrainingJob default/: TrainingJob is invalid: it must be an object"},
      {kube::training_jobs, json{{"metadata", {{"name", 5}}}},
       "invalid: create TrainingJob default/: TrainingJob is invalid: metadata.name must be a string"},
      {kube::training_jobs, versioned,
       "invalid: create TrainingJob default/smoke: resourceVersion should not be set on objects to be created"},
      {kube::training_jobs, elsewhere,
       "invalid: create TrainingJob default/smoke: the namespace of the provided object does not match the namespace "
       "sent on the "
       "request"},
      {kube::training_jobs, json{{"metadata", 5}},
       "invalid: create TrainingJob default/: TrainingJob is invalid: metadata must be an object"},
      {kube::training_jobs, json{{"metadata", {{"name", "smoke"}, {"resourceVersion", 7}}}},
       "invalid: create TrainingJob default/: TrainingJob is invalid: metadata.resourceVersion must be a string"},
      {kube::pods,
       json::parse(R"({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}, {"image": "i"}]}})"),
       "invalid: create Pod default/p: Pod \"p\" is invalid: spec.containers[1].name: Required value"},
      {kube::services, json{{"metadata", {{"name", "a.b"}}}},
       "invalid: create Service default/a.b: Service \"a.b\" is invalid: metadata.name: Invalid value: \"a.b\": a "
       "DNS-1035 "
       "label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end "
       "with "
       "an alphanumeric character"},
      {kube::pods, json{{"metadata", {{"name", "p"}}}},
       "invalid: create Pod default/p: Pod \"p\" is invalid: spec.containers: Required value"},
  };
  for (const auto& [type, object, sentence] : cases) EXPECT_EQ(told(api_.create(type, "default", object)), sentence);
  for (const std::string name : {"Smoke", "-smoke", "smoke-", "a/b", "a_b"}) {
    EXPECT_EQ(api_.create(kube::training_jobs, "default", a_job(name)).error().kind, ErrorKind::invalid) << name;
  }
  EXPECT_EQ(api_.create(kube::services, "default", {{"metadata", {{"name", "0-smoke"}}}}).error().kind,
            ErrorKind::invalid);
}

TEST_F(MemoryApiTest, NamesHaveTheLengthThatTheirKindMayHave) {
  for (const auto& [type, length_max] :
       {std::pair{kube::services, std::size_t{63}}, {kube::leases, std::size_t{253}}}) {
    const std::string longest(length_max, 'a');
    create(type, {{"metadata", {{"name", longest}}}});
    const auto refused = api_.create(type, "default", {{"metadata", {{"name", longest + "a"}}}});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
    EXPECT_TRUE(
        refused.error().message.ends_with("must be no more than " + std::to_string(length_max) + " characters"));
  }
  create(kube::leases, {{"metadata", {{"name", "0.a-b.c"}}}});
}

TEST_F(MemoryApiTest, GenerateNameGivesNamesThatDiffer) {
  const json object{{"metadata", {{"generateName", "e-"}}}};
  const json first = create(kube::events, object);
  const json second = create(kube::events, object);
  EXPECT_TRUE(first["metadata"]["name"].get<std::string>().starts_with("e-"));
  EXPECT_EQ(first["metadata"]["name"].get<std::string>().size(), 7U);
  const json named = create(kube::events, {{"metadata", {{"generateName", "e-"}, {"name", "mine"}}}});
  EXPECT_EQ(named["metadata"]["name"], "mine");
  EXPECT_NE(first["metadata"]["name"], second["metadata"]["name"]);
}

TEST_F(MemoryApiTest, ADryRunStoresNothingAndStillMeetsTheNameInUse) {
  EXPECT_TRUE(api_.create(kube::pods, "default", a_pod(), {.is_dry_run = true}));
  EXPECT_EQ(count(kube::pods), 0U);
  create(kube::pods, a_pod());
  EXPECT_EQ(api_.create(kube::pods, "default", a_pod(), {.is_dry_run = true}).error().kind, ErrorKind::already_exists);
}

TEST_F(MemoryApiTest, WhatIsNotThereIsNotFoundByEveryVerb) {
  const json job = a_job();
  EXPECT_EQ(told(api_.get(kube::training_jobs, "default", "smoke")),
            "not_found: get TrainingJob default/smoke: trainingjobs.trainyard.dev \"smoke\" not found");
  EXPECT_EQ(api_.update(kube::training_jobs, "default", job).error().kind, ErrorKind::not_found);
  EXPECT_EQ(api_.update_status(kube::training_jobs, "default", job).error().kind, ErrorKind::not_found);
  EXPECT_EQ(api_.patch(kube::training_jobs, "default", "smoke", kube::PatchType::merge, job).error().kind,
            ErrorKind::not_found);
  EXPECT_EQ(api_.remove(kube::training_jobs, "default", "smoke").error().kind, ErrorKind::not_found);
  EXPECT_EQ(api_.bind_pod("default", "smoke", "here").error().kind, ErrorKind::not_found);
}

TEST_F(MemoryApiTest, UpdateKeepsStatusAndRaisesGenerationWithTheSpecOnly) {
  json job = create(kube::training_jobs, a_job());
  job["status"] = {{"phase", "Running"}};
  job = api_.update_status(kube::training_jobs, "default", job).value();
  EXPECT_EQ(job["metadata"]["generation"], 1);

  job["metadata"]["labels"]["team"] = "vision";
  job["status"]["phase"] = "Failed";
  job = api_.update(kube::training_jobs, "default", job).value();
  EXPECT_EQ(job["status"]["phase"], "Running");
  EXPECT_EQ(job["metadata"]["generation"], 1);

  job["spec"]["replicas"] = 4;
  EXPECT_EQ(api_.update(kube::training_jobs, "default", job).value()["metadata"]["generation"], 2);
}

TEST_F(MemoryApiTest, UpdateKeepsWhatOnlyTheServerSets) {
  const json stored = create(kube::training_jobs, a_job());
  json wanted{{"apiVersion", "v1"},
              {"kind", "Pod"},
              {"metadata",
               {{"name", "smoke"},
                {"namespace", "elsewhere"},
                {"resourceVersion", stored["metadata"]["resourceVersion"]},
                {"creationTimestamp", "2000-01-01T00:00:00Z"},
                {"deletionTimestamp", "2000-01-01T00:00:00Z"},
                {"generation", 70}}},
              {"spec", {{"replicas", 2}}}};
  EXPECT_EQ(api_.update(kube::training_jobs, "default", wanted).value(), stored) << "nothing has changed";
  wanted["metadata"]["labels"] = {{"team", "vision"}};
  json changed = api_.update(kube::training_jobs, "default", wanted).value();
  EXPECT_EQ(changed["metadata"]["resourceVersion"], "2");
  changed["metadata"].erase("labels");
  changed["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"];
  EXPECT_EQ(changed, stored);
}

TEST_F(MemoryApiTest, AStatusOfItsOwnIsWrittenOnlyAsTheStatus) {
  for (const auto& type : {kube::training_jobs, kube::pods, kube::services, kube::volume_claims, kube::nodes}) {
    const std::string name_space = type.is_namespaced ? "default" : "";
    const auto created = api_.create(type, name_space, type == kube::pods ? a_pod("x") : a_job("x"));
    ASSERT_TRUE(created) << told(created);
    json object = *created;
    object["status"] = {{"phase", "Other"}};
    EXPECT_NE(api_.update(type, name_space, object).value().value("status", json::object()), object["status"])
        << type.plural;
    object["metadata"].erase("resourceVersion");
    if (type == kube::training_jobs) continue;
    EXPECT_EQ(api_.update_status(type, name_space, object).value()["status"], object["status"]) << type.plural;
    object.erase("status");
    EXPECT_FALSE(api_.update_status(type, name_space, object).value().contains("status")) << type.plural;
  }
}

TEST_F(MemoryApiTest, UpdateStatusChangesNothingElse) {
  json job = create(kube::training_jobs, a_job());
  job["spec"]["replicas"] = 8;
  job["metadata"]["labels"]["team"] = "vision";
  job["status"] = {{"phase", "Running"}};
  const json stored = api_.update_status(kube::training_jobs, "default", job).value();
  EXPECT_EQ(stored["spec"]["replicas"], 2);
  EXPECT_FALSE(stored["metadata"].contains("labels"));
  EXPECT_EQ(stored["status"]["phase"], "Running");
  EXPECT_EQ(api_.update_status(kube::leases, "default", job).error().kind, ErrorKind::not_found);
}

TEST_F(MemoryApiTest, AnUpdateThatChangesNothingKeepsTheVersion) {
  const json job = create(kube::training_jobs, a_job());
  EXPECT_EQ(api_.update(kube::training_jobs, "default", job).value(), job);
  EXPECT_EQ(api_.update_status(kube::training_jobs, "default", job).value(), job);
  EXPECT_EQ(api_.get(kube::training_jobs, "default", "smoke").value(), job);
}

TEST_F(MemoryApiTest, AnOldVersionOrAnotherUidIsAConflict) {
  json job = create(kube::training_jobs, a_job());
  json newer = job;
  newer["spec"]["replicas"] = 3;
  ASSERT_TRUE(api_.update(kube::training_jobs, "default", newer));
  job["spec"]["replicas"] = 4;
  const std::string sentence =
      "Operation cannot be fulfilled on trainingjobs.trainyard.dev \"smoke\": the object has been modified; please "
      "apply your "
      "changes to the latest version and try again";
  EXPECT_EQ(told(api_.update(kube::training_jobs, "default", job)),
            "conflict: update TrainingJob default/smoke: " + sentence);
  EXPECT_EQ(told(api_.update_status(kube::training_jobs, "default", job)),
            "conflict: update status of TrainingJob default/smoke: " + sentence);
  EXPECT_EQ(told(api_.patch(kube::training_jobs, "default", "smoke", kube::PatchType::merge,
                            {{"metadata", {{"resourceVersion", "1"}}}, {"spec", {{"replicas", 4}}}})),
            "conflict: patch TrainingJob default/smoke: " + sentence);

  job["metadata"].erase("resourceVersion");
  const std::string refused =
      "trainingjobs.trainyard.dev \"smoke\" is invalid: metadata.resourceVersion: Invalid value: 0x0: must be "
      "specified "
      "for an update";
  EXPECT_EQ(told(api_.update(kube::training_jobs, "default", job)),
            "invalid: update TrainingJob default/smoke: " + refused);
  EXPECT_EQ(told(api_.update_status(kube::training_jobs, "default", job)),
            "invalid: update status of TrainingJob default/smoke: " + refused);
  json pod = create(kube::pods, a_pod());
  pod["metadata"].erase("resourceVersion");
  EXPECT_TRUE(api_.update(kube::pods, "default", pod)) << "of a pod, no version is no condition";
  json lease = create(kube::leases, {{"metadata", {{"name", "l"}}}});
  lease["metadata"].erase("resourceVersion");
  EXPECT_EQ(api_.update(kube::leases, "default", lease).error().kind, ErrorKind::invalid);
  job["metadata"]["uid"] = "another";
  EXPECT_EQ(api_.update(kube::training_jobs, "default", job).error().kind, ErrorKind::conflict);
  EXPECT_EQ(
      api_.remove(kube::training_jobs, "default", "smoke", {.uid = "another", .grace_period_seconds = {}}).error().kind,
      ErrorKind::conflict);
  EXPECT_EQ(count(kube::training_jobs), 1U);
}

TEST_F(MemoryApiTest, PatchesMergeOrFollowJsonPatchAndSayWhatFailed) {
  create(kube::training_jobs, a_job());
  json job = api_.patch(kube::training_jobs, "default", "smoke", kube::PatchType::merge,
                        {{"spec", {{"suspend", true}, {"replicas", nullptr}}}, {"status", {{"phase", "Failed"}}}})
                 .value();
  EXPECT_EQ(job["spec"], (json{{"suspend", true}}));
  EXPECT_FALSE(job.contains("status"));
  EXPECT_EQ(job["metadata"]["generation"], 2);

  const json add = json::parse(R"([{"op": "test", "path": "/spec/suspend", "value": true},
                                   {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}])");
  job = api_.patch(kube::training_jobs, "default", "smoke", kube::PatchType::json_patch, add).value();
  EXPECT_EQ(job["metadata"]["labels"], (json{{"a", "b"}}));

  const json test = json::parse(R"([{"op": "test", "path": "/spec/suspend", "value": false}])");
  EXPECT_EQ(api_.patch(kube::training_jobs, "default", "smoke", kube::PatchType::json_patch, test).error().kind,
            ErrorKind::invalid);
}

TEST_F(MemoryApiTest, ListsByNamespaceLabelAndFieldWithoutTypeInTheItems) {
  json labelled = a_pod("a");
  labelled["metadata"]["labels"] = {{"team", "vision"}};
  create(kube::pods, labelled);
  create(kube::pods, a_pod("b"));
  ASSERT_TRUE(api_.create(kube::pods, "other", a_pod("c")));
  const auto names = [&](const kube::ListOptions& options) {
    std::vector<std::string> found;
    const auto page = api_.list(kube::pods, options).value();
    for (const auto& item : page.items) {
      EXPECT_FALSE(item.contains("kind"));
      found.push_back(item["metadata"]["name"]);
    }
    return found;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names({}), (Names{"a", "b", "c"}));
  EXPECT_EQ(names({.name_space = "default"}), (Names{"a", "b"}));
  EXPECT_EQ(names({.label_selector = "team=vision"}), (Names{"a"}));
  EXPECT_EQ(names({.field_selector = "metadata.name=c"}), (Names{"c"}));
  EXPECT_EQ(api_.list(kube::pods, {.label_selector = "a b"}).error().kind, ErrorKind::invalid);
  EXPECT_EQ(api_.list(kube::pods, {.field_selector = "spec.x=1"}).error().kind, ErrorKind::invalid);
}

TEST_F(MemoryApiTest, PagesShowTheListAsItWasAtTheFirst) {
  for (const auto* name : {"a", "b", "c"}) create(kube::pods, a_pod(name));
  const auto first = api_.list(kube::pods, {.limit = 2}).value();
  EXPECT_EQ(first.items.size(), 2U);
  EXPECT_EQ(first.resource_version, "3");
  create(kube::pods, a_pod("d"));
  const auto second = api_.list(kube::pods, {.continue_token = first.continue_token, .limit = 2}).value();
  ASSERT_EQ(second.items.size(), 1U);
  EXPECT_EQ(second.items[0]["metadata"]["name"], "c");
  EXPECT_EQ(second.resource_version, "3");
  EXPECT_EQ(second.continue_token, "");
  const auto again = api_.list(kube::pods, {.continue_token = first.continue_token, .limit = 2}).value();
  EXPECT_EQ(again.items, second.items) << "a client that lost the reply asks again";
  const auto whole = api_.list(kube::pods, {.limit = 4}).value();
  EXPECT_EQ(whole.items.size(), 4U);
  EXPECT_EQ(whole.continue_token, "");
  const auto ones = api_.list(kube::pods, {.limit = 1}).value();
  const auto rest = api_.list(kube::pods, {.continue_token = ones.continue_token}).value();
  EXPECT_EQ(rest.items.size(), 3U) << "without a limit it is the whole rest";
  api_.compact();
  EXPECT_EQ(api_.list(kube::pods, {.continue_token = first.continue_token, .limit = 2}).error().kind, ErrorKind::gone);
}

TEST_F(MemoryApiTest, OnlySoManyListsStayOpen) {
  MemoryApi api{clock_, {.open_lists_max = 1}};
  for (const auto* name : {"a", "b"}) ASSERT_TRUE(api.create(kube::pods, "default", a_pod(name)));
  const auto older = api.list(kube::pods, {.limit = 1}).value();
  const auto newer = api.list(kube::pods, {.limit = 1}).value();
  EXPECT_EQ(api.list(kube::pods, {.continue_token = older.continue_token}).error().kind, ErrorKind::gone);
  EXPECT_EQ(api.list(kube::pods, {.continue_token = newer.continue_token}).value().items.size(), 1U);
}

TEST_F(MemoryApiTest, ARunningPodIsMarkedAndIsGoneWhenItsKubeletReleasesIt) {
  running_pod();
  ASSERT_TRUE(api_.remove(kube::pods, "default", "p-0"));
  const json pod = api_.get(kube::pods, "default", "p-0").value();
  EXPECT_EQ(pod["metadata"]["deletionTimestamp"], "2026-01-01T00:00:30Z");
  EXPECT_EQ(pod["metadata"]["deletionGracePeriodSeconds"], 30);

  ASSERT_TRUE(api_.remove(kube::pods, "default", "p-0", {.uid = {}, .grace_period_seconds = 60}));
  EXPECT_EQ(api_.get(kube::pods, "default", "p-0").value(), pod) << "a later delete lengthens nothing";
  clock_.advance(std::chrono::seconds{3});
  ASSERT_TRUE(api_.remove(kube::pods, "default", "p-0", {.uid = {}, .grace_period_seconds = 30}));
  EXPECT_EQ(api_.get(kube::pods, "default", "p-0").value(), pod) << "nor does one of the same grace";
  ASSERT_TRUE(api_.remove(kube::pods, "default", "p-0", {.uid = {}, .grace_period_seconds = 5}));
  EXPECT_EQ(api_.get(kube::pods, "default", "p-0").value()["metadata"]["deletionTimestamp"], "2026-01-01T00:00:08Z");
  ASSERT_TRUE(api_.remove(kube::pods, "default", "p-0", {.uid = {}, .grace_period_seconds = 0}));
  EXPECT_EQ(count(kube::pods), 0U);
}

TEST_F(MemoryApiTest, TheGraceIsTheDeletesOrThePodsOrHalfAMinute) {
  struct Row {
    json pods;
    std::optional<std::int64_t> deletes;
    std::int64_t grace;
  };
  const std::vector<Row> rows{{7, {}, 7}, {7, 3, 3}, {7, 9, 9}, {nullptr, {}, 30}, {nullptr, 1, 1}};
  for (const Row& row : rows) {
    json pod = a_pod();
    pod["spec"]["terminationGracePeriodSeconds"] = row.pods;
    if (row.pods.is_null()) pod["spec"].erase("terminationGracePeriodSeconds");
    create(kube::pods, pod);
    ASSERT_TRUE(api_.bind_pod("default", "p-0", "here"));
    ASSERT_TRUE(api_.remove(kube::pods, "default", "p-0", {.uid = {}, .grace_period_seconds = row.deletes}));
    EXPECT_EQ(api_.get(kube::pods, "default", "p-0").value()["metadata"]["deletionGracePeriodSeconds"], row.grace);
    ASSERT_TRUE(api_.remove(kube::pods, "default", "p-0", {.uid = {}, .grace_period_seconds = 0}));
  }
}

TEST_F(MemoryApiTest, APodThatNoNodeRunsIsDeletedAtOnce) {
  create(kube::pods, a_pod("unbound"));
  ASSERT_TRUE(api_.remove(kube::pods, "default", "unbound"));
  for (const char* phase : {"Failed", "Succeeded"}) {
    json ended = running_pod("ended");
    ended["status"]["phase"] = phase;
    ASSERT_TRUE(api_.update_status(kube::pods, "default", ended));
    ASSERT_TRUE(api_.remove(kube::pods, "default", "ended"));
    EXPECT_EQ(count(kube::pods), 0U) << phase;
  }
}

TEST_F(MemoryApiTest, APodIsBoundOnce) {
  create(kube::pods, a_pod());
  EXPECT_EQ(api_.bind_pod("default", "p-0", "here").value()["spec"]["nodeName"], "here");
  EXPECT_EQ(told(api_.bind_pod("default", "p-0", "there")),
            "conflict: bind Pod default/p-0: pod p-0 is already assigned to node \"here\"");
}

TEST_F(MemoryApiTest, AFinalizerHoldsAnObjectUntilItIsTakenOff) {
  json job = a_job();
  job["metadata"]["finalizers"] = {"trainyard.dev/storage"};
  create(kube::training_jobs, job);
  ASSERT_TRUE(api_.remove(kube::training_jobs, "default", "smoke"));
  job = api_.get(kube::training_jobs, "default", "smoke").value();
  EXPECT_TRUE(job["metadata"].contains("deletionTimestamp"));
  job["metadata"].erase("finalizers");
  ASSERT_TRUE(api_.update(kube::training_jobs, "default", job));
  EXPECT_EQ(count(kube::training_jobs), 0U);
}

TEST_F(MemoryApiTest, EachOfTwoFinalizersHoldsAnObject) {
  json job = a_job();
  job["metadata"]["finalizers"] = {"trainyard.dev/storage", "other/finalizer"};
  create(kube::training_jobs, job);
  ASSERT_TRUE(api_.remove(kube::training_jobs, "default", "smoke"));
  job = api_.get(kube::training_jobs, "default", "smoke").value();
  for (const std::size_t left : {1U, 0U}) {
    job["metadata"]["finalizers"].erase(0);
    const auto updated = api_.update(kube::training_jobs, "default", job);
    ASSERT_TRUE(updated) << updated.error().message;
    job = *updated;
    EXPECT_EQ(count(kube::training_jobs), left);
  }
}

TEST_F(MemoryApiTest, DependentsGoWithTheirLastOwner) {
  const json job = create(kube::training_jobs, a_job());
  const json other = create(kube::training_jobs, a_job("other"));
  const json service = create(kube::services, owned_by({{"metadata", {{"name", "s"}}}}, job));
  create(kube::pods, owned_by(a_pod("of-service"), service));
  create(kube::pods, owned_by(owned_by(a_pod("shared"), job), other));
  create(kube::pods, a_pod("free"));
  ASSERT_TRUE(api_.remove(kube::training_jobs, "default", "smoke"));
  EXPECT_EQ(count(kube::services), 0U);
  EXPECT_EQ(count(kube::pods), 2U);
  ASSERT_TRUE(api_.remove(kube::training_jobs, "default", "other"));
  EXPECT_EQ(api_.list(kube::pods, {}).value().items.at(0)["metadata"]["name"], "free");
}

TEST_F(MemoryApiTest, ADependentOfAnOwnerThatIsGoneIsCollectedOnArrival) {
  const json job = create(kube::training_jobs, a_job());
  ASSERT_TRUE(api_.remove(kube::training_jobs, "default", "smoke"));
  create(kube::pods, owned_by(a_pod(), job));
  EXPECT_EQ(count(kube::pods), 0U);
}

TEST_F(MemoryApiTest, AdmissionChangesOrRefusesEveryWrite) {
  MemoryApi api{
      clock_,
      {.admission = [](const kube::ResourceType&, const json& object, const json* stored, bool) -> Result<json> {
        if (stored != nullptr && object["spec"] != (*stored)["spec"])
          return fail(ErrorKind::invalid, "spec is immutable");
        json admitted = object;
        admitted["spec"].emplace("seed", 7);
        return admitted;
      }}};
  json job = api.create(kube::training_jobs, "default", a_job()).value();
  EXPECT_EQ(job["spec"]["seed"], 7);
  job["spec"]["seed"] = 8;
  EXPECT_EQ(told(api.update(kube::training_jobs, "default", job)),
            "invalid: update TrainingJob default/smoke: spec is immutable");
  EXPECT_EQ(told(api.patch(kube::training_jobs, "default", "smoke", kube::PatchType::merge, {{"spec", {{"seed", 8}}}})),
            "invalid: patch TrainingJob default/smoke: spec is immutable");
}

TEST_F(MemoryApiTest, AdmissionIsAskedForADryRunAndAStatusAndToldHowStrictToBe) {
  std::vector<std::string> asked;
  MemoryApi api{
      clock_,
      {.admission = [&](const kube::ResourceType& type, const json& object, const json* stored,
                        bool is_strict) -> Result<json> {
        asked.push_back(std::string{type.kind} + (stored == nullptr ? " new" : " old") + (is_strict ? " strict" : ""));
        if (object.value("/status/phase"_json_pointer, "") == "Wrong") return fail(ErrorKind::invalid, "no such phase");
        return object;
      }}};
  ASSERT_TRUE(api.create(kube::training_jobs, "default", a_job(), {.is_dry_run = true}));
  json job = api.create(kube::training_jobs, "default", a_job(), {.is_strict = true}).value();
  job["status"] = {{"phase", "Wrong"}};
  EXPECT_EQ(told(api.update_status(kube::training_jobs, "default", job)),
            "invalid: update status of TrainingJob default/smoke: no such phase");
  EXPECT_EQ(asked, (std::vector<std::string>{"TrainingJob new", "TrainingJob new strict", "TrainingJob old"}));
}

}  // namespace
}  // namespace trainyard::local
