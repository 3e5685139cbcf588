#include "api/validation/validate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "api/training_job.hpp"
#include "api/validation/cel_syntax.hpp"
#include "api/validation/schema.hpp"
#include "api/yaml/yaml.hpp"
#include "tests/api/full_status.hpp"
#include "tests/corpus/corpus.hpp"
#include "tests/paths/paths.hpp"

namespace trainyard::api {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json the_crd() {
  return json::parse(training_job_crd());
}
json the_schema() {
  return the_crd().at("spec").at("versions").at(0).at("schema").at("openAPIV3Schema");
}

std::string joined(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& violation : violations) text += to_string(violation) + "\n";
  return text;
}

class Corpus : public testing::TestWithParam<corpus::Case> {};

TEST_P(Corpus, GetsItsResult) {
  const corpus::Case& tested = GetParam();
  const auto violations =
      tested.before ? validate_update(*tested.before, tested.object) : validate_training_job(tested.object);
  if (tested.says.empty()) {
    EXPECT_EQ(joined(violations), "");
    return;
  }
  const bool is_found = std::ranges::any_of(violations, [&](const Violation& violation) {
    return violation.field == tested.field && violation.sentence.find(tested.says) != std::string::npos;
  });
  EXPECT_TRUE(is_found) << "expected " << tested.field << ": ..." << tested.says << "..., got:\n" << joined(violations);
}

INSTANTIATE_TEST_SUITE_P(All, Corpus, testing::ValuesIn(corpus::load()));

TEST(Corpus, HasAtLeastAHundredCasesAndNamesEachOnce) {
  std::set<std::string> names;
  for (const corpus::Case& tested : corpus::load()) {
    EXPECT_TRUE(names.insert(tested.file + tested.name).second) << tested;
  }
  EXPECT_GE(names.size(), 100U);
}

TEST(Corpus, IsAcceptedAsThisProgramWritesIt) {
  // The operator hands a job's training and checkpoint to the ranks as it writes them. So it writes no field that the
  // rules refuse beside another, and none that it would read otherwise.
  std::size_t count = 0;
  for (const corpus::Case& tested : corpus::load()) {
    if (!tested.says.empty() || tested.before) continue;
    json object = with_defaults(tested.object);
    object["metadata"]["name"] = "a";
    object["metadata"]["uid"] = "u";
    const auto job = parse_training_job(object);
    ASSERT_TRUE(job) << tested << job.error().message;
    if (job->spec.training) object["spec"]["training"] = to_json(*job->spec.training);
    if (job->spec.checkpoint) object["spec"]["checkpoint"] = to_json(*job->spec.checkpoint);
    EXPECT_EQ(joined(validate_training_job(object)), "") << tested << object["spec"].dump(2);
    EXPECT_EQ(parse_training_job(object)->spec, job->spec) << tested;
    ++count;
  }
  EXPECT_GT(count, 50U);
}

TEST(WithDefaults, AgreeWithTheStructs) {
  const json object = json::parse(R"({"metadata": {"name": "a", "uid": "u"}, "spec": {
      "training": {"model": {"name": "m"}, "data": {"format": "synthetic"}}, "checkpoint": {"uri": "s3://models/a"}}})");
  const auto without = parse_training_job(object);
  const auto with = parse_training_job(with_defaults(object));
  ASSERT_TRUE(without && with);
  EXPECT_EQ(*with, *without);
  EXPECT_NE(with_defaults(object), object);
}

TEST(WithDefaults, LeavesWhatHasNoSpec) {
  EXPECT_EQ(with_defaults(json::array()), json::array());
  EXPECT_EQ(with_defaults({{"kind", "Pod"}}), (json{{"kind", "Pod"}}));
}

TEST(ValidateTrainingJob, RefusesWhatIsNoObjectOrAnotherKind) {
  EXPECT_EQ(joined(validate_training_job(json::array())), "the object: must be an object with fields, got []\n");
  const std::string said =
      joined(validate_training_job(json::parse(R"({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})")));
  EXPECT_THAT(said, HasSubstr(R"(apiVersion: must be trainyard.dev/v1alpha1, got "v1")"));
  EXPECT_THAT(said, HasSubstr(R"(kind: must be TrainingJob, got "Pod")"));
  EXPECT_THAT(said, HasSubstr("spec: must be given"));
}

TEST(ValidateTrainingJob, ReportsAllViolationsAtOnce) {
  const auto violations =
      validate_training_job(json::parse(R"({"apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob",
      "metadata": {"name": "a"}, "spec": {"replicas": 0, "training": {"model": {}, "data": {"format": "csv"}}}})"));
  EXPECT_EQ(violations.size(), 3U) << joined(violations);
}

TEST(ValidateTrainingJob, ReportsBrokenRulesTogetherWithSchemaViolations) {
  const std::string said = joined(validate_training_job(
      json::parse(R"({"apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "My.Job"},
      "spec": {"replica": 2, "replicas": 0, "checkpoint": {"uri": "s4://models/a", "keep": {"last": "2"}},
               "training": {"model": {"name": "m"}, "data": {"format": "synthetic", "path": "x"}}}})")));
  EXPECT_THAT(said, HasSubstr("spec.replica: unknown field; did you mean replicas?\n"));
  EXPECT_THAT(said, HasSubstr("spec.replicas: must be at least 1, got 0\n"));
  EXPECT_THAT(said, HasSubstr("metadata.name: must begin with a letter"));
  EXPECT_THAT(said, HasSubstr("spec.checkpoint.uri: must be s3://"));
  EXPECT_THAT(said, HasSubstr("synthetic data is made up in memory"));
}

TEST(ValidateTrainingJob, EvaluatesNoRuleAboutAValueThatViolatesTheSchema) {
  const std::string said = joined(validate_training_job(
      json::parse(R"({"apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": 5},
      "spec": {"training": {"model": {"name": "m"}, "data": {"format": "synthetc"}}, "template": []}})")));
  EXPECT_EQ(said,
            "metadata.name: must be a string, got 5\n"
            "spec.template: must be an object with fields, got []\n"
            "spec.training.data.format: must be one of synthetic, idx, cifar10, cifar100, images, imagePairs, tokens, "
            "safetensors, "
            "got \"synthetc\"; did you mean synthetic?\n");
}

TEST(CheckObjectMeta, JudgesTheNamesOfLabels) {
  const std::string longest(63, 'x');
  const auto faults_of = [](const std::string& key) {
    return check_object_meta({{"name", "a"}, {"labels", {{key, "v"}}}}).size();
  };
  for (const std::string& key : {std::string{"a"}, longest, std::string{"A_b.c-1"}, "example.com/" + longest,
                                 std::string(253, 'p') + "/x", std::string{"a-b.c/x"}, std::string{"0/1"}})
    EXPECT_EQ(faults_of(key), 0U) << key;
  for (const std::string& key :
       {std::string{}, longest + "x", std::string{"-a"}, std::string{"a-"}, std::string{"a b"},
        std::string{"Example.com/x"}, std::string{"/x"}, std::string{"x/"}, std::string{"a/b/c"},
        std::string(254, 'p') + "/x", std::string{"-a/x"}, std::string{"a./x"}})
    EXPECT_EQ(faults_of(key), 1U) << key;
}

TEST(CheckObjectMeta, JudgesTheValuesOfLabelsAndNotOfAnnotations) {
  for (const char* value : {"-a", "a-", ".a", "a_", "a/b", "é"}) {
    const auto violations = check_object_meta({{"name", "a"}, {"labels", {{"k", value}}}});
    ASSERT_EQ(violations.size(), 1U) << value;
    EXPECT_THAT(violations.front().sentence, HasSubstr(std::string{"'"} + value + "' of k is no label's value"));
    EXPECT_TRUE(check_object_meta({{"name", "a"}, {"annotations", {{"k", value}}}}).empty()) << value;
  }
}

/// The file's documents; empty if it cannot be read.
std::vector<json> documents_of(const std::filesystem::path& path) {
  std::ifstream stream{path};
  const std::string text{std::istreambuf_iterator<char>{stream}, {}};
  auto documents = parse_yaml(text);
  EXPECT_TRUE(documents) << path << ": " << documents.error().message;
  return documents.value_or(std::vector<json>{});
}

TEST(Examples, AreAccepted) {
  std::size_t jobs_count = 0;
  for (const auto& entry : std::filesystem::directory_iterator{paths::source("examples")}) {
    if (entry.path().extension() != ".yaml") continue;
    for (const json& document : documents_of(entry.path())) {
      EXPECT_EQ(joined(validate_training_job(document)), "") << entry.path();
      ++jobs_count;
    }
  }
  EXPECT_GE(jobs_count, 4U);
}

TEST(Examples, OfThePageOfFieldsAreAcceptedWithTheirStatus) {
  const std::vector<json> documents = documents_of(paths::source("docs/reference.yaml"));
  ASSERT_GE(documents.size(), 4U);
  for (const json& document : documents) EXPECT_EQ(joined(validate_training_job(document)), "") << document;
  const json& status = documents.front().at("status");
  EXPECT_EQ(joined(validate_status(status)), "");
}

TEST(Crd, HasNoFieldInAStatusThatTheOperatorDoesNotReadAndWrite) {
  json document = documents_of(paths::source("docs/reference.yaml")).at(0);
  document["metadata"]["uid"] = "u";
  const auto job = parse_training_job(document);
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(to_json(job->status), document.at("status"));
}

TEST(Crd, HasEveryFieldThatTheOperatorWritesIntoAStatus) {
  const json schema = the_schema().at("properties").at("status");
  EXPECT_EQ(joined(check_schema(schema, to_json(a_full_status()), "status")), "");
  EXPECT_EQ(joined(check_schema(schema, to_json(TrainingJobStatus{}), "status")), "");
}

TEST(ValidateTrainingJob, RefusesATextThatIsMuchTooLongForItsPattern) {
  json job = documents_of(paths::source("examples/smoke.yaml")).at(0);
  job["spec"]["training"]["data"] = {{"format", "idx"}, {"uri", "s3://models/" + std::string(300'000, 'a')}};
  const std::string said = joined(validate_training_job(job));
  EXPECT_THAT(said, HasSubstr("spec.training.data.uri: must be at most 1024 characters"));
  EXPECT_THAT(said, HasSubstr("spec.training.data.uri: has 300012 bytes, and no valid value is nearly as long"));
}

TEST(Crd, FitsIntoAClientSideApply) {
  EXPECT_LT(training_job_crd().size(), 262'144U);
}

TEST(Crd, HasRulesThatAllCanBeReadHere) {
  std::size_t rules_count = 0;
  const std::function<void(const json&)> check_rules = [&](const json& schema) {
    for (const json& rule : schema.value("x-kubernetes-validations", json::array())) {
      const auto parsed = cel::parse(rule.at("rule").get<std::string>());
      EXPECT_TRUE(parsed) << parsed.error().message;
      EXPECT_FALSE(rule.at("message").get<std::string>().empty());
      ++rules_count;
    }
    const json properties = schema.value("properties", json::object());
    for (const auto& [name, child] : properties.items()) check_rules(child);
    if (schema.contains("items")) check_rules(schema.at("items"));
  };
  check_rules(the_schema());
  EXPECT_GT(rules_count, 30U);
}

/// Calls `visit` for the schema of each field, with its path.
void visit_fields(const json& schema, const std::string& path,
                  const std::function<void(const json&, const std::string&)>& visit) {
  const json properties = schema.value("properties", json::object());
  for (const auto& [name, child] : properties.items()) {
    const std::string field = join_path(path, name);
    visit(child, field);
    visit_fields(child, field, visit);
  }
  if (schema.contains("items")) visit_fields(schema.at("items"), path + "[]", visit);
}

TEST(Crd, DescribesEveryFieldInSentences) {
  visit_fields(the_schema(), "", [](const json& schema, const std::string& path) {
    if (path.starts_with("metadata")) return;  // the API server's own
    const std::string description = schema.value("description", "");
    EXPECT_TRUE(description.ends_with('.')) << path << ": " << description;
  });
}

TEST(Crd, NamesDefaultsInDescriptionsBecauseKubectlExplainDoesNotShowThem) {
  visit_fields(the_schema(), "", [](const json& schema, const std::string& path) {
    if (!schema.contains("default") || schema.at("default").is_object()) return;
    const json& value = schema.at("default");
    const std::string word = value.is_string() ? value.get<std::string>() : value.dump();
    EXPECT_THAT(schema.value("description", ""), HasSubstr(word)) << path;
    EXPECT_THAT(schema.value("description", ""), HasSubstr("when left out")) << path;
  });
}

TEST(Crd, BoundsEveryStringAndListAndMap) {
  const auto is_bounded = [](const json& schema) {
    const std::string type = schema.value("type", "");
    if (type == "string") return schema.contains("maxLength") || schema.contains("enum");
    if (type == "array") return schema.contains("maxItems");
    return !schema.contains("additionalProperties") || schema.contains("maxProperties");
  };
  visit_fields(the_schema(), "", [&](const json& schema, const std::string& path) {
    if (path == "apiVersion" || path == "kind") return;  // the API server's own
    EXPECT_TRUE(is_bounded(schema)) << path;
    EXPECT_TRUE(!schema.contains("items") || is_bounded(schema.at("items"))) << path << "[]";
  });
}

}  // namespace
}  // namespace trainyard::api
