#include "local/container.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard::local {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;

class ResolveContainerTest : public testing::Test {
 protected:
  ResolveContainerTest() {
    context_.inherited = {{"PATH", "/bin"}, {"HOME", "/root"}};
    context_.termination_log = "/logs/rank-0.termination";
    context_.volumes = {{"datasets", "/srv/data"}};
    context_.read_secret = [](const std::string& name) -> Result<Variables> {
      if (name == "s3") return Variables{{"KEY", "k"}, {"TOKEN", "t"}};
      if (name == "later") return Variables{{"KEY", "of the later"}, {"TOKEN", "of the later"}};
      if (name == "locked") return fail(ErrorKind::forbidden, "secret \"locked\" may not be read");
      return fail(ErrorKind::not_found, "secret \"" + name + "\" not found");
    };
    pod_ = json::parse(R"({
      "metadata": {"name": "p-0", "namespace": "ml", "uid": "u-1",
                   "labels": {"trainyard.dev/rank": "3"}, "annotations": {"note": "n"}},
      "spec": {"nodeName": "local", "volumes": [
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "datasets"}},
        {"name": "other", "persistentVolumeClaim": {"claimName": "unmapped"}},
        {"name": "host", "hostPath": {"path": "/srv/host"}},
        {"name": "scratch", "emptyDir": {}}]},
      "status": {"podIP": "127.0.0.1", "hostIP": "10.0.0.7"}})");
  }

  Result<ProcessSpec> resolve(const std::string& container) const {
    return resolve_container(pod_, json::parse(container), context_);
  }
  std::string refusal(const std::string& container) const {
    const auto spec = resolve(container);
    return spec ? "it was taken" : std::string{to_string(spec.error().kind)} + ": " + spec.error().message;
  }

  ContainerContext context_;
  json pod_;
};

TEST_F(ResolveContainerTest, TheProcessHasThisMachinesEnvironmentAndThePodsOverIt) {
  const auto spec = resolve(R"({"name": "worker", "command": ["run"], "workingDir": "/work",
                                "env": [{"name": "HOME", "value": "/pod"}]})");
  ASSERT_TRUE(spec);
  EXPECT_EQ(*spec, (ProcessSpec{.arguments = {"run"},
                                .environment = {"HOME=/pod", "HOSTNAME=p-0", "PATH=/bin",
                                                "TRAINYARD_TERMINATION_LOG=/logs/rank-0.termination"},
                                .working_directory = "/work"}));
}

TEST_F(ResolveContainerTest, VariablesComeFromFieldsAndSecrets) {
  const auto spec = resolve(R"({"name": "worker", "command": ["run"],
    "envFrom": [{"prefix": "S3_", "secretRef": {"name": "s3"}}, {"secretRef": {"name": "absent", "optional": true}}],
    "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
            {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['trainyard.dev/rank']"}}},
            {"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['note']"}}},
            {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "G", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "K", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
            {"name": "L", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['absent']"}}},
            {"name": "H", "valueFrom": {"secretKeyRef": {"name": "s3", "key": "TOKEN"}}},
            {"name": "I", "valueFrom": {"secretKeyRef": {"name": "s3", "key": "absent", "optional": true}}},
            {"name": "J", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "KEY", "optional": true}}}]})");
  ASSERT_TRUE(spec) << spec.error().message;
  for (const auto* entry : {"S3_KEY=k", "S3_TOKEN=t", "A=p-0", "B=ml", "C=u-1", "D=3", "E=n", "F=local", "G=127.0.0.1",
                            "H=t", "K=10.0.0.7", "L="}) {
    EXPECT_THAT(spec->environment, Contains(entry));
  }
  for (const auto* absent : {"I=", "J="})
    EXPECT_THAT(spec->environment, testing::Not(Contains(testing::StartsWith(absent))));
}

TEST_F(ResolveContainerTest, OfTwoSecretsWithOneKeyTheLaterCountsAndBothAreBelowEnv) {
  const auto spec = resolve(R"({"name": "worker", "command": ["run"],
    "envFrom": [{"secretRef": {"name": "s3"}}, {"secretRef": {"name": "later"}}],
    "env": [{"name": "TOKEN", "value": "of env"}]})");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_THAT(spec->environment, Contains("KEY=of the later"));
  EXPECT_THAT(spec->environment, Contains("TOKEN=of env"));
  EXPECT_THAT(spec->environment, testing::Not(Contains("KEY=k")));
}

TEST_F(ResolveContainerTest, LaterVariablesCommandAndArgumentsUseEarlierOnes) {
  const auto spec = resolve(R"j({"name": "worker", "command": ["sh", "$(B)"], "args": ["$(A)", "$$(A)", "$(PATH)"],
                                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"}, {"name": "C", "value": "3"}]})j");
  ASSERT_TRUE(spec);
  EXPECT_THAT(spec->arguments, ElementsAre("sh", "1$(C)", "1", "$(A)", "$(PATH)"));
  EXPECT_THAT(spec->environment, Contains("B=1$(C)"));
}

TEST_F(ResolveContainerTest, AContainerSeesTheGpusThatItWasGivenAndNoneIsMinusOne) {
  const std::string container = R"({"name": "worker", "command": ["run"]})";
  EXPECT_THAT(resolve(container)->environment, testing::Not(Contains(testing::StartsWith("CUDA_"))));
  context_.visible_gpus = {"0", "2"};
  EXPECT_THAT(resolve(container)->environment, Contains("CUDA_VISIBLE_DEVICES=0,2"));
  context_.visible_gpus = std::vector<std::string>{};
  EXPECT_THAT(resolve(container)->environment, Contains("CUDA_VISIBLE_DEVICES=-1"));
}

TEST_F(ResolveContainerTest, OnlyTheTerminationLogIsOursWhateverTheContainerDeclares) {
  context_.inherited["HOSTNAME"] = "machine";
  context_.visible_gpus = {"0"};
  context_.overrides = {{"TRAINYARD_TERMINATION_LOG", "/over"}};
  const auto spec = resolve(R"({"name": "worker", "command": ["run"], "env": [
      {"name": "CUDA_VISIBLE_DEVICES", "value": "7"}, {"name": "TRAINYARD_TERMINATION_LOG", "value": "/mine"}]})");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_THAT(spec->environment, ElementsAre("CUDA_VISIBLE_DEVICES=7", "HOME=/root", "HOSTNAME=p-0", "PATH=/bin",
                                             "TRAINYARD_TERMINATION_LOG=/logs/rank-0.termination"));
}

TEST_F(ResolveContainerTest, AVariableMayBeTheCpuRequestInThousandths) {
  const auto with = [](const std::string& request) {
    return R"({"name": "worker", "command": ["run"], "resources": )" + request + R"(,
               "env": [{"name": "M", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}}]})";
  };
  for (const auto& [request, value] :
       std::vector<std::pair<std::string, std::string>>{{R"({"requests": {"cpu": "500m"}})", "500"},
                                                        {R"({"requests": {"cpu": "2"}})", "2000"},
                                                        {R"({"requests": {"cpu": 1.5}})", "1500"},
                                                        {R"({"requests": {"cpu": "0.0001"}})", "1"},
                                                        {R"({"requests": {"cpu": "1000000000"}})", "1000000000000"},
                                                        {R"({"requests": {"cpu": 0}})", "0"},
                                                        {R"({})", "0"}}) {
    const auto spec = resolve(with(request));
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_THAT(spec->environment, Contains("M=" + value)) << request;
  }
  for (const auto* request : {R"("many")", R"("")", R"("m")", R"("2x")", R"("-1")", R"("1000000001")", R"("1e400")"}) {
    const auto spec = resolve(with(R"({"requests": {"cpu": )" + std::string{request} + "}}"));
    ASSERT_FALSE(spec) << request;
    EXPECT_EQ(spec.error().message, "resources.requests.cpu is not an amount of processors");
  }
}

TEST_F(ResolveContainerTest, OverridesAreSetOverTheContainersOwnVariablesAndUseThem) {
  context_.overrides = {{"LOCAL_RANK", "$(RANK)"}};
  const auto spec = resolve(R"({"name": "worker", "command": ["run"],
                                "env": [{"name": "RANK", "value": "3"}, {"name": "LOCAL_RANK", "value": "0"}]})");
  EXPECT_THAT(spec->environment, Contains("LOCAL_RANK=3"));
  EXPECT_THAT(spec->environment, testing::Not(Contains("LOCAL_RANK=0")));
}

TEST_F(ResolveContainerTest, AContainerOfATrainingJobWithoutACommandRunsTheWorker) {
  const std::string container =
      R"({"name": "worker", "args": ["--x"], "env": [{"name": "TRAINYARD_SPEC", "value": "{}"}]})";
  context_.worker_program = "/opt/trainyard-worker";
  EXPECT_THAT(resolve(container)->arguments, ElementsAre("/opt/trainyard-worker", "--x"));
  EXPECT_THAT(refusal(R"({"name": "worker", "env": [{"name": "OTHER", "value": "{}"}]})"),
              testing::HasSubstr("container worker has no command"));
}

TEST_F(ResolveContainerTest, MountsAreTakenWhereTheirPathIsRightAlready) {
  EXPECT_TRUE(resolve(R"({"name": "worker", "command": ["run"], "volumeMounts": [
    {"name": "shm", "mountPath": "/dev/shm"}, {"name": "data", "mountPath": "/srv/data/"},
    {"name": "data", "mountPath": "/srv/data/inner", "subPath": "inner"}, {"name": "host", "mountPath": "/srv/host"}]})"));
}

TEST_F(ResolveContainerTest, RefusesByNameWhatThisMachineCannotGive) {
  const auto with = [](const std::string& part) { return R"({"name": "worker", "command": ["run"], )" + part + "}"; };
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"({"name": "worker", "image": "python:3"})",
       "invalid: container worker has no command; this machine runs no images, so write the command into the "
       "container"},
      {with(R"("envFrom": [{"secretRef": {"name": "gone"}}])"), "not_found: secret \"gone\" not found"},
      {with(R"("envFrom": [{"configMapRef": {"name": "c"}}])"),
       "invalid: envFrom with a ConfigMap is not supported on this machine; only Secrets are"},
      {with(R"("env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s3", "key": "gone"}}}])"),
       "not_found: couldn't find key gone in Secret s3"},
      {with(R"("env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}])"),
       "invalid: environment variable A comes from configMapKeyRef, which this machine does not have"},
      {with(R"("env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}])"),
       "invalid: fieldRef spec.x is not supported on this machine"},
      {R"({"name": "worker", "env": [{"name": "TRAINYARD_SPEC", "value": "{}"}]})",
       "invalid: container worker has no command; this machine runs no images, so write the command into the "
       "container"},
      {with(R"("envFrom": [{"secretRef": {"name": "locked", "optional": true}}])"),
       "forbidden: secret \"locked\" may not be read"},
      {with(R"("env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "gone", "key": "k"}}}])"),
       "not_found: secret \"gone\" not found"},
      {with(
           R"("env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "locked", "key": "k", "optional": true}}}])"),
       "forbidden: secret \"locked\" may not be read"},
      {with(R"("env": [{"name": "A", "valueFrom": {}}])"),
       "invalid: environment variable A comes from nowhere, which this machine does not have"},
      {with(R"("env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['x"}}}])"),
       "invalid: fieldRef metadata.labels['x is not supported on this machine"},
      {with(R"("env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}])"),
       "invalid: fieldRef metadata.labels is not supported on this machine"},
      {with(
           R"("env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}}])"),
       "invalid: resourceFieldRef limits.cpu with the divisor 1m is not supported on this machine"},
      {with(R"("env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu"}}}])"),
       "invalid: resourceFieldRef requests.cpu with the divisor 1 is not supported on this machine"},
      {with(R"("volumeMounts": [{"name": "absent", "mountPath": "/x"}])"),
       "invalid: volumeMount absent names no volume of the pod"},
      {with(R"("volumeMounts": [{"name": "scratch", "mountPath": "/x"}])"),
       "invalid: volume scratch cannot be mounted at /x on this machine"},
      {with(R"("volumeMounts": [{"name": "host", "mountPath": "/dev/shm"}])"),
       "invalid: volume host cannot be mounted at /dev/shm on this machine"},
      {with(R"("volumeMounts": [{"name": "scratch", "mountPath": ""}])"),
       "invalid: volume scratch cannot be mounted at  on this machine"},
      {with(R"("volumeMounts": [{"name": "other", "mountPath": "/x"}])"),
       "not_found: persistentvolumeclaim \"unmapped\" not found"},
      {with(R"("volumeMounts": [{"name": "data", "mountPath": "/data"}])"),
       "invalid: volume data cannot be mounted at /data, since nothing is mounted on this machine: the claim datasets "
       "is "
       "the folder /srv/data, so a program finds its files only if mountPath is their real path"},
      {with(R"("volumeMounts": [{"name": "data", "mountPath": "/srv/data", "subPath": "inner"}])"),
       "invalid: volume data cannot be mounted at /srv/data, since nothing is mounted on this machine: the claim "
       "datasets "
       "is the folder /srv/data, so a program finds its files only if mountPath is their real path"},
  };
  for (const auto& [container, sentence] : cases) EXPECT_EQ(refusal(container), sentence);
}

TEST(ExpandVariables, FollowsKubernetesRules) {
  const Variables variables{{"A", "1"}, {"B_2", "two"}};
  const std::vector<std::pair<std::string, std::string>> cases{{"", ""},
                                                               {"plain", "plain"},
                                                               {"$(A)", "1"},
                                                               {"x$(A)y$(B_2)", "x1ytwo"},
                                                               {"$(C)", "$(C)"},
                                                               {"$$(A)", "$(A)"},
                                                               {"$$$(A)", "$1"},
                                                               {"$A", "$A"},
                                                               {"cost: 5$", "cost: 5$"},
                                                               {"$(A", "$(A"},
                                                               {"$$", "$"},
                                                               {"$(A)$$(A)", "1$(A)"},
                                                               {"$(A)B)", "1B)"},
                                                               {"$A)", "$A)"},
                                                               {"$(C))$(A)", "$(C))1"}};
  for (const auto& [text, expanded] : cases) EXPECT_EQ(expand_variables(text, variables), expanded) << text;
}

TEST(GpusOf, ReadsLimitsThenRequestsAsNumberOrText) {
  EXPECT_EQ(gpus_of(json::parse(R"({"resources": {"limits": {"nvidia.com/gpu": 2}}})")), 2);
  EXPECT_EQ(gpus_of(json::parse(R"({"resources": {"requests": {"nvidia.com/gpu": "4"}}})")), 4);
  EXPECT_EQ(
      gpus_of(json::parse(R"({"resources": {"limits": {"nvidia.com/gpu": "0"}, "requests": {"nvidia.com/gpu": 2}}})")),
      0)
      << "the limit decides";
  EXPECT_EQ(gpus_of(json::parse(R"({"resources": {"limits": {"memory": "1Gi"}, "requests": {"nvidia.com/gpu": 2}}})")),
            2);
  EXPECT_EQ(gpus_of(json::parse(R"({"resources": {"limits": {"memory": "1Gi"}}})")), 0);
  EXPECT_EQ(gpus_of(json::object()), 0);
}

}  // namespace
}  // namespace trainyard::local
