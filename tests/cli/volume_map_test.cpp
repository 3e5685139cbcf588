#include "cli/volume_map.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "api/validation/validate.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::cli {
namespace {

using nlohmann::json;

json a_job_on_volume_claims() {
  return json::parse(R"({"spec": {
      "training": {"data": {"format": "idx", "volumeClaim": "datasets", "path": "fashion-mnist"}},
      "checkpoint": {"uri": "file:///checkpoints/job"},
      "template": {"spec": {
        "volumes": [{"name": "c", "persistentVolumeClaim": {"claimName": "checkpoints"}}, {"name": "e", "emptyDir": {}}],
        "containers": [{"name": "worker", "volumeMounts": [{"name": "c", "mountPath": "/checkpoints"}, {"name": "e", "mountPath": "/dev/shm"}]}]}}}})");
}

const VolumeClaimFolders two_folders{{"datasets", "/usr/share/datasets"}, {"checkpoints", "/home/me/kept"}};

TEST(WithClaimFolders, PutsFoldersInThePlaceOfClaims) {
  const auto job = with_volume_claim_folders(a_job_on_volume_claims(), two_folders);
  ASSERT_TRUE(job) << job.error().message;
  const json& spec = job->at("spec");
  EXPECT_EQ(spec.at("training").at("data"), (json{{"format", "idx"}, {"path", "/usr/share/datasets/fashion-mnist"}}));
  EXPECT_EQ(spec.at("checkpoint").at("uri"), "file:///home/me/kept/job");
  const json& mounts = spec.at("template").at("spec").at("containers").at(0).at("volumeMounts");
  EXPECT_EQ(mounts,
            json::parse(R"([{"name": "c", "mountPath": "/home/me/kept"}, {"name": "e", "mountPath": "/dev/shm"}])"));
}

TEST(WithClaimFolders, TakesAClaimsRootForDataWithoutAPath) {
  json given = a_job_on_volume_claims();
  given["spec"]["training"]["data"].erase("path");
  EXPECT_EQ(with_volume_claim_folders(given, two_folders)->at("/spec/training/data/path"_json_pointer),
            "/usr/share/datasets");
}

TEST(WithClaimFolders, FollowsTheInnermostMountAndItsSubPath) {
  json given = a_job_on_volume_claims();
  json& pod_spec = given["spec"]["template"]["spec"];
  pod_spec["volumes"].push_back({{"name", "d"}, {"persistentVolumeClaim", {{"claimName", "datasets"}}}});
  pod_spec["containers"][0]["volumeMounts"] = json::parse(R"([
      {"name": "d", "mountPath": "/checkpoints/job/", "subPath": "inner"}, {"name": "c", "mountPath": "/checkpoints"}])");
  EXPECT_EQ(with_volume_claim_folders(given, two_folders)->at("/spec/checkpoint/uri"_json_pointer),
            "file:///usr/share/datasets/inner");
}

TEST(WithClaimFolders, TakesTheRootOfThisMachine) {
  EXPECT_EQ(with_volume_claim_folders(a_job_on_volume_claims(), {{"datasets", "/"}, {"checkpoints", "/"}})
                ->at("/spec/checkpoint/uri"_json_pointer),
            "file:///job");
}

TEST(WithClaimFolders, LeavesAFolderWhoseNameOnlyBeginsLikeAMount) {
  json given = a_job_on_volume_claims();
  given["spec"]["checkpoint"]["uri"] = "file:///checkpoints-of-old/job";
  EXPECT_EQ(with_volume_claim_folders(given, two_folders)->at("/spec/checkpoint/uri"_json_pointer),
            "file:///checkpoints-of-old/job");
}

TEST(WithClaimFolders, FollowsWhereLocalCheckpointsLie) {
  json given = a_job_on_volume_claims();
  given["spec"]["checkpoint"]["uri"] = "s3://models/job";
  given["spec"]["checkpoint"]["local"] = {{"path", "/checkpoints/local/"}, {"every", {{"time", "30s"}}}};
  const auto job = with_volume_claim_folders(given, two_folders);
  EXPECT_EQ(job->at("/spec/checkpoint/local/path"_json_pointer), "/home/me/kept/local");
  const fakes::TemporaryFolder machine;
  const VolumeClaimFolders folders{{"datasets", machine.path()}, {"checkpoints", machine.path() + "/kept"}};
  EXPECT_EQ(missing_folders(given, *with_volume_claim_folders(given, folders), folders),
            (std::vector<std::string>{machine.path() + "/kept"}))
      << "it is made";
}

TEST(WithClaimFolders, FollowsWhereTheJobBeginsFrom) {
  json given = a_job_on_volume_claims();
  const auto resume_of = [&](const char* resume) {
    given["spec"]["checkpoint"]["resume"] = resume;
    return with_volume_claim_folders(given, two_folders)->at("/spec/checkpoint/resume"_json_pointer);
  };
  EXPECT_EQ(resume_of("file:///checkpoints/earlier/step-5/g-1"), "file:///home/me/kept/earlier/step-5/g-1");
  EXPECT_EQ(resume_of("auto"), "auto");
}

TEST(WithClaimFolders, FollowsTheWeightsAndTheFileThatTheTrainingBeginsWith) {
  json given = a_job_on_volume_claims();
  given["spec"]["training"]["model"]["weights"] = "file:///checkpoints/resnet50.safetensors";
  given["spec"]["training"]["model"]["uri"] = "file:///checkpoints/net.pt";
  EXPECT_EQ(with_volume_claim_folders(given, two_folders)->at("/spec/training/model/weights"_json_pointer),
            "file:///home/me/kept/resnet50.safetensors");
  EXPECT_EQ(with_volume_claim_folders(given, two_folders)->at("/spec/training/model/uri"_json_pointer),
            "file:///home/me/kept/net.pt");
}

TEST(WithClaimFolders, FollowsWhereLogFilesAndPredictionsGo) {
  json given = a_job_on_volume_claims();
  given["spec"]["training"]["log"]["uri"] = "file:///checkpoints/predictions";
  EXPECT_EQ(with_volume_claim_folders(given, two_folders)->at("/spec/training/log/uri"_json_pointer),
            "file:///home/me/kept/predictions");
}

TEST(WithClaimFolders, FollowsDataUnderAMount) {
  json given = a_job_on_volume_claims();
  given["spec"]["training"]["data"] = {{"format", "idx"}, {"path", "/checkpoints/data"}};
  EXPECT_EQ(with_volume_claim_folders(given, two_folders)->at("/spec/training/data/path"_json_pointer),
            "/home/me/kept/data");
}

TEST(WithClaimFolders, LeavesTheMountsOfAProgramThatIsNotOurWorker) {
  json given = a_job_on_volume_claims();
  given["spec"].erase("training");
  EXPECT_EQ(*with_volume_claim_folders(given, two_folders), given);
}

TEST(MissingFolders, AreMadeForPredictionsThatTheyWillHold) {
  const fakes::TemporaryFolder here;
  json given = a_job_on_volume_claims();
  given["spec"].erase("checkpoint");
  given["spec"]["training"]["log"]["uri"] = "file:///checkpoints/predictions";
  const VolumeClaimFolders folders{{"datasets", here.path()}, {"checkpoints", here.file("kept").string()}};
  EXPECT_EQ(missing_folders(given, *with_volume_claim_folders(given, folders), folders),
            (std::vector<std::string>{here.file("kept").string()}));
}

TEST(MissingFolders, AreMadeOnlyForWhatTheJobWrites) {
  const fakes::TemporaryFolder here;
  const std::string data = here.file("data").string();
  const std::string kept = here.file("kept").string();
  const VolumeClaimFolders folders{{"datasets", data}, {"checkpoints", kept}, {"unused", "/no/such"}};
  const json adapted = *with_volume_claim_folders(a_job_on_volume_claims(), folders);
  const auto refused = missing_folders(a_job_on_volume_claims(), adapted, folders);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "--volume datasets=" + data + ": there is no such folder");
  std::filesystem::create_directory(data);
  EXPECT_EQ(missing_folders(a_job_on_volume_claims(), adapted, folders), (std::vector<std::string>{kept}));
  std::filesystem::create_directory(kept);
  EXPECT_EQ(missing_folders(a_job_on_volume_claims(), adapted, folders), (std::vector<std::string>{}));
}

TEST(WithClaimFolders, LeavesACheckpointThatOnlyASidecarMounts) {
  json given = a_job_on_volume_claims();
  json& containers = given["spec"]["template"]["spec"]["containers"];
  containers.push_back({{"name", "sidecar"}, {"volumeMounts", containers[0]["volumeMounts"]}});
  containers[0].erase("volumeMounts");
  EXPECT_EQ(with_volume_claim_folders(given, two_folders)->at("/spec/checkpoint/uri"_json_pointer),
            "file:///checkpoints/job");
}

TEST(WithClaimFolders, LeavesAJobWithoutClaimsAsItIs) {
  const json given = json::parse(R"({"spec": {"training": {"data": {"format": "idx", "uri": "s3://data/x"}},
      "checkpoint": {"uri": "s3://models/x"}, "template": {"spec": {"containers": [{"name": "worker"}]}}}})");
  EXPECT_EQ(*with_volume_claim_folders(given, {}), given);
}

TEST(WithClaimFolders, NamesTheClaimThatHasNoFolder) {
  const auto without_data = with_volume_claim_folders(a_job_on_volume_claims(), {{"checkpoints", "/kept"}});
  ASSERT_FALSE(without_data);
  EXPECT_EQ(without_data.error(), (Error{ErrorKind::not_found,
                                         "spec.training.data.volumeClaim: volume claim 'datasets' has no folder on "
                                         "this machine; add --volume datasets=FOLDER",
                                         {}}));
  const auto without_volume = with_volume_claim_folders(a_job_on_volume_claims(), {{"datasets", "/data"}});
  ASSERT_FALSE(without_volume);
  EXPECT_EQ(without_volume.error().message,
            "spec.template.spec.volumes[0]: volume claim 'checkpoints' has no folder on this machine; add --volume "
            "checkpoints=FOLDER");
}

TEST(CheckClaims, NamesAllThatIsMissingAtOnce) {
  const fakes::TemporaryFolder machine;
  const auto said = [](const VolumeClaimFolders& folders) {
    const auto checked = check_volume_claims(a_job_on_volume_claims(), folders);
    return checked ? "" : checked.error().message;
  };
  const std::string kept = machine.path() + "/kept";
  const std::string absent = machine.path() + "/absent";
  EXPECT_EQ(said({{"datasets", machine.path()}, {"checkpoints", kept}}), "") << "checkpoints' folder is made";
  EXPECT_EQ(said({}),
            "volume claims 'checkpoints', 'datasets' have no folder on this machine; add --volume checkpoints=FOLDER "
            "--volume datasets=FOLDER");
  EXPECT_EQ(
      said({{"datasets", absent}}),
      "volume claim 'checkpoints' has no folder on this machine; add --volume checkpoints=FOLDER; --volume datasets=" +
          absent + ": there is no such folder");
  EXPECT_EQ(said({{"checkpoints", kept}, {"datasets", absent}}),
            "--volume datasets=" + absent + ": there is no such folder");
}

struct Template {
  std::string_view name;
  json pod_template;
};

TEST(WithCheckpointFolder, MakesAJobThatTheApiTakes) {
  const std::vector<Template> table{
      {"no template", nullptr},
      {"a template without containers", json::parse(R"({"spec": {"nodeSelector": {"a": "b"}}})")},
      {"a container that mounts something",
       json::parse(R"({"spec": {"volumes": [{"name": "c", "hostPath": {"path": "/x"}}],
          "containers": [{"name": "main", "volumeMounts": [{"name": "c", "mountPath": "/x"}]}]}})")},
      {"a worker with a sidecar",
       json::parse(R"({"spec": {"containers": [{"name": "s", "image": "s:1"}, {"name": "worker"}]}})")}};
  for (const Template& row : table) {
    json given =
        json::parse(R"({"apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "a"},
        "spec": {"training": {"model": {"name": "m"}, "data": {"format": "synthetic"}}}})");
    if (!row.pod_template.is_null()) given["spec"]["template"] = row.pod_template;
    const json job = with_checkpoint_folder(given, "/home/my name/kept");
    EXPECT_EQ(job.at("/spec/checkpoint/uri"_json_pointer), "file:///home/my name/kept") << row.name;
    const auto violations = api::validate_training_job(job);
    EXPECT_TRUE(violations.empty()) << row.name << ": " << api::to_string(violations.front());
  }
}

TEST(AddClaimFolder, TakesFoldersRelativeToTheCurrentOne) {
  VolumeClaimFolders folders;
  ASSERT_TRUE(add_volume_claim_folder("datasets=/usr/share/datasets/", folders));
  ASSERT_TRUE(add_volume_claim_folder("here=a/../b", folders));
  EXPECT_EQ(folders, (VolumeClaimFolders{{"datasets", "/usr/share/datasets"},
                                         {"here", (std::filesystem::current_path() / "b").string()}}));
}

TEST(AddClaimFolder, RefusesWhatIsNoPairOrComesTwice) {
  VolumeClaimFolders folders{{"a", "/a"}};
  for (const char* flag : {"datasets", "=/data", "datasets=", "a=/b"}) {
    const auto added = add_volume_claim_folder(flag, folders);
    ASSERT_FALSE(added) << flag;
    EXPECT_EQ(added.error().kind, ErrorKind::invalid);
  }
  EXPECT_EQ(folders, (VolumeClaimFolders{{"a", "/a"}}));
}

}  // namespace
}  // namespace trainyard::cli
