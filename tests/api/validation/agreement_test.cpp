#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "api/training_job.hpp"
#include "api/validation/schema.hpp"
#include "api/validation/validate.hpp"

/// The bounds, words and defaults that the program reads with are those of the CRD, which the API server has.
namespace trainyard::api {
namespace {

using nlohmann::json;

const json& spec_schema() {
  static const json schema =
      json::parse(training_job_crd()).at("/spec/versions/0/schema/openAPIV3Schema/properties/spec"_json_pointer);
  return schema;
}

/// A job with what some parts of a spec need beside the field under test.
json a_whole_job() {
  return json::parse(R"({"apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob",
      "metadata": {"name": "a", "uid": "u"}, "spec": {
      "training": {"model": {"name": "m", "uri": "file:///m.pt"}, "data": {"format": "synthetic"}, "earlyStopping": {"metric": "m"},
        "lrSchedule": {"metric": "m", "every": {"steps": 1}}, "strategy": {"checkParametersEvery": {"steps": 1}}},
      "checkpoint": {"uri": "s3://models/a", "keep": {"best": {"metric": "m"}},
        "local": {"path": "/local", "every": {"steps": 1}}}}})");
}

/// Calls `visit` for the schema of each field of the spec outside the template, with its path.
void visit_spec(const json& schema, const std::string& path,
                const std::function<void(const json&, const std::string&)>& visit) {
  const json properties = schema.value("properties", json::object());
  for (const auto& [name, field] : properties.items()) {
    if (path.empty() && name == "template") continue;
    visit(field, path + "/" + name);
    visit_spec(field, path + "/" + name, visit);
  }
}

/// The sentence with which the parser refuses the job whose field `path` is `value`; empty: it takes the job.
std::string refusal_of(const std::string& path, const json& value) {
  json job = a_whole_job();
  job["spec"][json::json_pointer{path}] = value;
  const auto parsed = parse_training_job(job);
  return parsed ? "" : parsed.error().message;
}

/// The sentence with which the CRD's schema refuses the field.
std::string schemas_refusal(const json& schema, const std::string& path, const json& value) {
  std::string field = "spec" + path;
  for (char& c : field) c = c == '/' ? '.' : c;
  const auto violations = check_schema(schema, value, field);
  return violations.empty() ? "" : to_string(violations.front());
}

TEST(ParseTrainingJob, RefusesWhatIsBelowALeastValueInTheWordsOfTheSchema) {
  std::size_t count = 0;
  visit_spec(spec_schema(), "", [&](const json& schema, const std::string& path) {
    // A deadline of 0 is refused by the API server alone.
    if (!schema.contains("minimum") || path == "/activeDeadlineSeconds") return;
    const json& min = schema.at("minimum");
    const bool is_open = schema.value("exclusiveMinimum", false);
    const json below = is_open ? min : json(min.get<std::int64_t>() - 1);
    const std::string sentence = schemas_refusal(schema, path, below);
    EXPECT_NE(sentence, "") << path;
    EXPECT_EQ(refusal_of(path, below), sentence);
    if (!is_open) {
      EXPECT_EQ(refusal_of(path, min), "") << path;
    }
    ++count;
  });
  EXPECT_GT(count, 50U);
}

TEST(ParseTrainingJob, RefusesWhatIsAboveTheGreatestValuesThatTheWorkerReliesOn) {
  const std::set<std::string> bounded{"/training/data/loaderThreads",
                                      "/training/ema/decay",
                                      "/training/lrSchedule/factor",
                                      "/training/lrSchedule/threshold",
                                      "/training/optimizer/beta1",
                                      "/training/optimizer/beta2",
                                      "/training/optimizer/momentum",
                                      "/training/profile/steps",
                                      "/training/strategy/bucketMiB",
                                      "/training/strategy/cpuReplicas",
                                      "/training/strategy/fusionThresholdMiB",
                                      "/training/strategy/gradientPredivideFactor",
                                      "/training/strategy/powerSgd/rank",
                                      "/training/strategy/syncIntervalMs"};
  std::size_t count = 0;
  visit_spec(spec_schema(), "", [&](const json& schema, const std::string& path) {
    if (!bounded.contains(path)) return;
    const json& max = schema.at("maximum");
    const bool is_open = schema.value("exclusiveMaximum", false);
    const json above = is_open ? max : json(max.get<std::int64_t>() + 1);
    EXPECT_EQ(refusal_of(path, above), schemas_refusal(schema, path, above));
    EXPECT_EQ(refusal_of(path, is_open ? json(0.999999) : max), "") << path;
    ++count;
  });
  EXPECT_EQ(count, bounded.size());
}

TEST(ParseTrainingJob, KnowsTheWordsOfEveryChoiceOfTheSchema) {
  std::size_t count = 0;
  visit_spec(spec_schema(), "", [&](const json& schema, const std::string& path) {
    // The store and the precision read these two, and each has a test.
    if (!schema.contains("enum") || path.ends_with("/serverSideEncryption") || path.ends_with("/precision")) return;
    // One list of the program serves several choices of two words, whose default comes first in the schema.
    if (!path.ends_with("/mode")) {
      EXPECT_EQ(refusal_of(path, "other"), schemas_refusal(schema, path, "other"));
    }
    EXPECT_NE(refusal_of(path, "other"), "") << path;
    for (const json& word : schema.at("enum")) EXPECT_EQ(refusal_of(path, word), "") << path << " " << word;
    ++count;
  });
  EXPECT_GT(count, 15U);
}

TEST(WithDefaults, AgreeWithTheStructsInEveryPartThatMayBeLeftOut) {
  for (const std::string_view part :
       {R"({"restart": {}})", R"({"restart": {"backoff": {}}})", R"({"restart": {"backoff": {"initial": "1s"}}})",
        R"({"restart": {"backoff": {"max": "1h"}}})", R"({"restart": {"application": {}, "infrastructure": {}}})",
        R"({"restart": {"application": {"max": 0}}})", R"({"training": {"optimizer": {"name": "sgd"}}})",
        R"({"training": {"optimizer": {"lr": 0.5}}})", R"({"training": {"log": {}}})",
        R"({"training": {"log": {"uri": "file:///l"}}})", R"({"training": {"snapshots": {}}})",
        R"({"checkpoint": {"keep": {}}})", R"({"checkpoint": {"keep": {"best": {"metric": "x", "mode": null}}}})",
        R"({"checkpoint": {"keep": {"every": {"steps": 9}}}})", R"({"checkpoint": {"local": {"keep": null}}})",
        R"({"checkpoint": {"s3": {}, "onSuspend": null, "onDelete": null, "whenBusy": null, "resume": null}})",
        R"({"suspend": null, "cleanPods": null, "replicas": null, "gpusPerPod": null})"}) {
    json object = a_whole_job();
    const json change = json::parse(part);
    for (const auto& [name, value] : change.items()) {
      json& place = object["spec"][name];
      if (value.is_object()) {
        if (place.is_null()) place = json::object();
        place.update(value, true);
      } else {
        place = value;
      }
    }
    const auto without = parse_training_job(object);
    const auto with = parse_training_job(with_defaults(object));
    ASSERT_TRUE(without) << part << without.error().message;
    ASSERT_TRUE(with) << part << with.error().message;
    EXPECT_EQ(*with, *without) << part;
  }
}

TEST(ParseTrainingJob, FillsInTheDefaultsThatTheDescriptionsName) {
  struct Row {
    std::string_view training;
    std::string_view path;
    std::string_view written;
  };
  const Row rows[] = {
      {R"({"earlyStopping": {"metric": "m"}})", "/earlyStopping",
       R"({"metric": "m", "mode": "min", "patience": 3, "minDelta": 0.0})"},
      {R"({"lrSchedule": {"name": "plateau", "metric": "m"}})", "/lrSchedule",
       R"({"name": "plateau", "warmupSteps": 0, "factor": 0.1, "metric": "m", "mode": "min", "patience": 10, "threshold": 0.0001})"},
      {R"({"lrSchedule": {"name": "step", "every": {"epochs": 30}}})", "/lrSchedule",
       R"({"name": "step", "warmupSteps": 0, "every": {"epochs": 30}, "factor": 0.1})"},
      {R"({"strategy": {"gradientCompression": "powersgd"}})", "/strategy/powerSgd",
       R"({"rank": 1, "startStep": 1000, "errorFeedback": true, "warmStart": true})"},
      {R"({"strategy": {"name": "bagua", "algorithm": "qadam"}})", "/strategy",
       R"({"name": "bagua", "algorithm": "qadam", "qadamWarmupSteps": 100})"},
      {R"({"strategy": {"name": "bagua", "algorithm": "decentralized"}})", "/strategy",
       R"({"name": "bagua", "algorithm": "decentralized", "peerSelection": "all", "communicationInterval": 1})"},
      {R"({"strategy": {"name": "horovod"}})", "/strategy",
       R"({"name": "horovod", "fusionThresholdMiB": 128, "op": "average", "gradientPredivideFactor": 1.0})"},
      {R"({"ema": {}})", "/ema", R"({"decay": 0.999})"},
      {R"({"profile": {}})", "/profile", R"({"firstStep": 10, "steps": 5})"},
      {R"({"optimizer": {}})", "/optimizer",
       R"({"name": "adam", "lr": 0.001, "weightDecay": 0.0, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8})"},
      {R"({"optimizer": {"name": "sgd"}})", "/optimizer",
       R"({"name": "sgd", "lr": 0.001, "weightDecay": 0.0, "momentum": 0.0})"},
      {R"({"data": {}})", "/data", R"({"format": "synthetic", "samples": 60000})"},
      {R"({"log": {}})", "/log", R"({"every": {"steps": 50}})"},
  };
  for (const Row& row : rows) {
    json training{{"model", {{"name", "m"}}}};
    training.update(json::parse(row.training));
    const auto spec = parse_training_spec(training);
    ASSERT_TRUE(spec) << row.training << spec.error().message;
    EXPECT_EQ(to_json(*spec).at(json::json_pointer{std::string{row.path}}), json::parse(row.written)) << row.training;
  }
}

}  // namespace
}  // namespace trainyard::api
