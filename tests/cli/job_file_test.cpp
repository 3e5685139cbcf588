#include "cli/job_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/file_commands.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::cli {
namespace {

using api::Violation;
using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<Violation> found_in(const std::string& pod_spec) {
  return mistyped_template_fields({{"spec", {{"template", {{"spec", json::parse(pod_spec)}}}}}});
}

TEST(MistypedTemplateFields, AreNamedWithWhatWasMeant) {
  EXPECT_THAT(
      found_in(R"({"tolerration": [], "initContainers": [{"comand": []}],
                   "containers": [{"name": "a"}, {"resource": {}, "resources": {"limit": {}}, "env": [{"names": "A"}],
                                   "envFrom": [{"secretref": {}}], "volumeMounts": [{"mountpath": "/x"}]}]})"),
      ElementsAre(
          Violation{"spec.template.spec.tolerration", "unknown field; did you mean tolerations?"},
          Violation{"spec.template.spec.initContainers[0].comand", "unknown field; did you mean command?"},
          Violation{"spec.template.spec.containers[1].resource", "unknown field; did you mean resources?"},
          Violation{"spec.template.spec.containers[1].resources.limit", "unknown field; did you mean limits?"},
          Violation{"spec.template.spec.containers[1].env[0].names", "unknown field; did you mean name?"},
          Violation{"spec.template.spec.containers[1].envFrom[0].secretref", "unknown field; did you mean secretRef?"},
          Violation{"spec.template.spec.containers[1].volumeMounts[0].mountpath",
                    "unknown field; did you mean mountPath?"}));
}

TEST(MistypedTemplateFields, AreNoneThatANewerKubernetesMayKnow) {
  EXPECT_THAT(found_in(R"({"inPlaceUpgrades": true, "containers": [{"brandNew": 1, "resourcesRules": []}]})"),
              IsEmpty());
}

TEST(MistypedTemplateFields, AreNotSearchedForOutsideATemplate) {
  EXPECT_THAT(found_in(R"([])"), IsEmpty());
  EXPECT_THAT(found_in(R"({"containers": {"a": 1}})"), IsEmpty());
  EXPECT_THAT(found_in(R"({"containers": [5, {"env": [5], "resources": []}]})"), IsEmpty());
  for (const char* job : {"5", "{}", R"({"spec": 5})", R"({"spec": {"template": null}})"})
    EXPECT_THAT(mistyped_template_fields(json::parse(job)), IsEmpty()) << job;
}

TEST(Document, IsOursWhereItWasProbablyMeantSo) {
  struct Row {
    std::string_view object;
    bool is_ours;
  };
  const std::vector<Row> rows{
      {R"({"kind": "TrainingJob"})", true},
      {R"({"kind": "trainingjobs"})", true},
      {R"({"kind": "TJ"})", true},
      {R"({"apiVersion": "trainyard.dev/v2", "kind": "Job"})", true},
      {R"({"spec": {}})", true},
      {R"({"kind": 5})", true},
      {"[]", true},
      {R"({"apiVersion": "v1", "kind": "Secret"})", false},
      {R"({"apiVersion": "batch/v1", "kind": "Job"})", false},
      {R"({"kind": "PyTrainingJob"})", false},
  };
  for (const Row& row : rows)
    EXPECT_EQ(Document{.object = json::parse(row.object)}.is_ours(), row.is_ours) << row.object;
}

TEST(Document, IsNamedByItsPlaceItsKindAndItsName) {
  EXPECT_EQ(title_of({.file = "a", .number = 2, .object = {{"kind", "TrainingJob"}, {"metadata", {{"name", "x"}}}}}),
            "a: document 2 (TrainingJob x)");
  EXPECT_EQ(title_of({.file = "a", .number = 1, .item = 3, .object = {{"kind", "Secret"}}}),
            "a: document 1, item 3 (Secret)");
  EXPECT_EQ(title_of({.file = "a", .object = {{"kind", 5}, {"metadata", {{"name", 7}}}}}), "a: document 1 (no kind)");
}

class JobFile : public testing::Test {
 protected:
  std::string error_of(const std::string& text) {
    const auto jobs = read_valid_jobs(folder_.write("job.yaml", text).string());
    return jobs ? "" : std::string{to_string(jobs.error().kind)} + ": " + jobs.error().message;
  }

  const std::string job_ = R"({"apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "a"},
      "spec": {"training": {"model": {"name": "m"}, "data": {"format": "synthetic"}}}})";
  const fakes::TemporaryFolder folder_;
};

TEST_F(JobFile, SaysWhyItHoldsNoJob) {
  const std::string file = folder_.file("job.yaml").string();
  EXPECT_EQ(error_of(""), "invalid: " + file + " is empty");
  EXPECT_EQ(error_of("# nothing\n---\n"), "invalid: " + file + " is empty");
  EXPECT_EQ(error_of("{apiVersion: v1, kind: Secret}"), "invalid: " + file + " holds no TrainingJob");
  EXPECT_EQ(error_of("{apiVersion: v1, kind: List, items: []}"), "invalid: " + file + " holds no TrainingJob");
  EXPECT_THAT(error_of("a: [1"), testing::StartsWith("invalid: " + file + ": YAML, line 1"));
  EXPECT_EQ(read_documents(folder_.path()).error(),
            (Error{ErrorKind::io, folder_.path() + " is a folder, not a file", {}}));
  EXPECT_EQ(read_documents("/no/such").error(),
            (Error{ErrorKind::io, "cannot read /no/such: No such file or directory", {}}));
}

TEST_F(JobFile, GivesTheJobsAloneWithTheirDefaultsAndPlaces) {
  folder_.write("job.yaml",
                "{apiVersion: v1, kind: Secret}\n---\n{apiVersion: v1, kind: List, items: [" + job_ + "]}\n");
  const auto jobs = read_valid_jobs(folder_.file("job.yaml").string());
  ASSERT_TRUE(jobs) << jobs.error().message;
  ASSERT_EQ(jobs->size(), 1U);
  EXPECT_EQ(jobs->front().number, 2U);
  EXPECT_EQ(jobs->front().item, 1U);
  EXPECT_EQ(jobs->front().object.at("/spec/replicas"_json_pointer), 1);
}

TEST_F(JobFile, SaysAWrongVersionOnceAndEveryFaultOfEveryJob) {
  std::string other = job_;
  other.replace(other.find("v1alpha1"), 8, "v1");
  std::string nameless = job_;
  nameless.replace(nameless.find("\"name\": \"a\""), 11, "\"generateName\": \"a-\"");
  const std::string file = folder_.file("job.yaml").string();
  EXPECT_EQ(error_of(other + "\n---\n" + nameless),
            "invalid: " + file + " is not valid:\n  " + file +
                ": document 1 (TrainingJob a): apiVersion: must be trainyard.dev/v1alpha1, got trainyard.dev/v1\n  " +
                file +
                ": document 2 (TrainingJob): metadata.name: must be given, since only an API server makes names from "
                "generateName");
}

TEST_F(JobFile, ListsTwentyFaultsAndThenOnlyTheirNumber) {
  const auto texts_of = [&](int faults) {
    json object = json::parse(job_);
    for (int fault = 0; fault < faults; ++fault) object["metadata"]["finalizers"].push_back(5);
    return find_violations({.file = "a", .object = object});
  };
  EXPECT_EQ(texts_of(20).size(), 20U);
  EXPECT_THAT(texts_of(20).back(), testing::StartsWith("metadata.finalizers[19]: "));
  EXPECT_EQ(texts_of(21).size(), 21U);
  EXPECT_EQ(texts_of(21).back(), "and 1 more");
}

class FileCommands : public JobFile {
 protected:
  int validate(const std::string& text) {
    return validate_files({.files = {folder_.write("job.yaml", text).string()}, .format = format_}, out_, errors_);
  }
  int render(const std::string& text) {
    return render_file({.file = folder_.write("job.yaml", text).string()}, out_, errors_);
  }

  OutputFormat format_ = OutputFormat::text;
  std::ostringstream out_, errors_;
};

TEST_F(FileCommands, ValidateListsEachDocumentForPrograms) {
  format_ = OutputFormat::json;
  json list{{"apiVersion", "v1"}, {"kind", "List"}, {"items", json::array({json::parse(job_)})}};
  list["items"][0]["spec"]["replicas"] = 0;
  EXPECT_EQ(validate(job_ + "\n---\n{apiVersion: v1, kind: Secret, metadata: {name: s}}\n---\n" + list.dump()), 1);
  const std::string file = folder_.file("job.yaml").string();
  const json expected = json::array({{{"file", file},
                                      {"document", 1},
                                      {"kind", "TrainingJob"},
                                      {"name", "a"},
                                      {"valid", true},
                                      {"violations", json::array()},
                                      {"note", "the model 'm' is not built in"}},
                                     {{"file", file},
                                      {"document", 2},
                                      {"kind", "Secret"},
                                      {"name", "s"},
                                      {"valid", nullptr},
                                      {"violations", json::array()}},
                                     {{"file", file},
                                      {"document", 3},
                                      {"item", 1},
                                      {"kind", "TrainingJob"},
                                      {"name", "a"},
                                      {"valid", false},
                                      {"violations", {"spec.replicas: must be at least 1, got 0"}}}});
  json said = json::parse(out_.str());
  EXPECT_THAT(said[0]["note"].get<std::string>(), testing::StartsWith("the model 'm' is not built in (there is: "));
  said[0]["note"] = "the model 'm' is not built in";
  EXPECT_EQ(said, expected);
}

TEST_F(FileCommands, ValidateOfAFileThatCannotBeReadPrintsAnEmptyListForPrograms) {
  format_ = OutputFormat::yaml;
  EXPECT_EQ(validate("a: ["), 1);
  EXPECT_EQ(out_.str(), "[]\n");
  EXPECT_THAT(errors_.str(), testing::StartsWith("error: "));
}

TEST_F(FileCommands, NoteNoModelThatAFileHas) {
  std::string job = job_;
  job.replace(job.find("{\"name\": \"m\"}"), 13, R"({"kind": "torchscript", "name": "m", "uri": "file:///m.pt"})");
  EXPECT_EQ(validate(job), 0);
  EXPECT_THAT(out_.str(), testing::EndsWith("(TrainingJob a): valid\n"));
  EXPECT_EQ(validate(job_), 0);
  EXPECT_THAT(out_.str(), testing::HasSubstr("the model 'm' is not built in"));
}

TEST_F(FileCommands, RenderIntoTheNamespaceOfTheJobOrElseTheGivenOne) {
  EXPECT_EQ(render(job_), 0) << errors_.str();
  EXPECT_THAT(out_.str(), testing::HasSubstr("\n  namespace: default\n"));
  out_.str("");
  std::string job = job_;
  job.replace(job.find("\"name\": \"a\""), 11, R"("name": "a", "namespace": "research")");
  EXPECT_EQ(render(job), 0) << errors_.str();
  EXPECT_THAT(out_.str(), testing::HasSubstr("\n  namespace: research\n"));
  EXPECT_THAT(out_.str(), testing::Not(testing::HasSubstr("namespace: default\n")));
}

TEST_F(FileCommands, RenderSaysWhyItCannot) {
  EXPECT_EQ(render("{apiVersion: v1, kind: Secret}"), 1);
  EXPECT_THAT(errors_.str(), testing::EndsWith("holds no TrainingJob\n"));
  errors_.str("");
  std::string job = job_;
  job.replace(
      job.find("\"spec\": {"), 9,
      R"("spec": {"template": {"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}}, )");
  EXPECT_EQ(render(job), 1);
  EXPECT_THAT(errors_.str(), testing::HasSubstr("job.yaml: document 1 (TrainingJob a): "));
  EXPECT_EQ(out_.str(), "");
}

}  // namespace
}  // namespace trainyard::cli
