#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "operator/manifest/containers.hpp"
#include "tests/builders/a_job.hpp"

namespace trainyard::manifest {
namespace {

using builders::a_job;
using builders::JobBuilder;

TEST(TemplateShapeFault, NamesTheFieldTheTypeAndWhatItGot) {
  const std::vector<std::pair<std::string, std::string>> templates_and_faults{
      {"{}", ""},
      {R"({"spec": {"tolerations": [{"operator": "Exists"}], "dnsPolicy": 7}})", ""},
      {R"({"spec": []})", "spec.template.spec must be an object, got []"},
      {R"({"spec": {"tolerations": "all"}})", R"(spec.template.spec.tolerations must be a list, got "all")"},
      {R"({"spec": {"tolerations": [{"key": "a"}, "b"]}})",
       R"(spec.template.spec.tolerations[1] must be an object, got "b")"},
      {R"({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [1]}}}})",
       "spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution must be an object, got "
       "[1]"},
      {R"({"spec": {"containers": [{"name": 5}]}})", "spec.template.spec.containers[0].name must be a string, got 5"},
      {R"({"spec": {"containers": [{"name": "a", "env": [{"name": {}}]}]}})",
       "spec.template.spec.containers[0].env[0].name must be a string, got {}"},
      {R"({"spec": {"containers": [{"name": "a", "securityContext": true}]}})",
       "spec.template.spec.containers[0].securityContext must be an object, got true"},
      {R"({"spec": {"initContainers": [{"name": "a", "env": 1}]}})",
       "spec.template.spec.initContainers[0].env must be a list, got 1"},
      {R"({"spec": {"volumes": {}}})", "spec.template.spec.volumes must be a list, got {}"},
      {R"({"spec": {"imagePullSecrets": {}}})", "spec.template.spec.imagePullSecrets must be a list, got {}"},
      {R"({"spec": {"containers": [{"envFrom": {}}]}})",
       "spec.template.spec.containers[0].envFrom must be a list, got {}"},
      {R"({"spec": {"containers": [{"volumeMounts": {}}]}})",
       "spec.template.spec.containers[0].volumeMounts must be a list, got {}"},
      {R"({"spec": {"containers": [{"volumeMounts": [{"mountPath": 1}]}]}})",
       "spec.template.spec.containers[0].volumeMounts[0].mountPath must be a string, got 1"},
      {R"({"spec": {"containers": [{"resources": {"limits": []}}]}})",
       "spec.template.spec.containers[0].resources.limits must be an object, got []"},
      {R"({"spec": {"containers": [{"resources": {"requests": []}}]}})",
       "spec.template.spec.containers[0].resources.requests must be an object, got []"},
      {R"({"spec": {"terminationGracePeriodSeconds": "1m"}})",
       R"(spec.template.spec.terminationGracePeriodSeconds must be an integer, got "1m")"},
  };
  for (const auto& [text, fault] : templates_and_faults) {
    EXPECT_EQ(template_shape_fault(nlohmann::json::parse(text)), fault) << text;
  }
}

const Settings settings{.worker_image_cpu = "worker:cpu"};

TEST(TemplateFault, SaysInOneSentenceWhyNoPodCanBeMade) {
  const std::vector<std::pair<JobBuilder, std::string>> jobs_and_faults{
      {a_job(), ""},
      {a_job().container(), ""},
      {a_job().pod_template(R"({"spec": {"containers": [{"name": "worker"}]}})"), ""},
      {a_job().pod_template(
           R"({"spec": {"containers": [{"name": "worker", "image": "a"}, {"name": "b", "image": "b"}]}})"),
       ""},
      {a_job().pod_template(R"({"spec": {"containers": [{"name": "a", "image": "a"}, {"name": "b", "image": "b"}]}})"),
       "spec.template has 2 containers and none of them is named 'worker': name the one that trains so, because only "
       "its end decides"},
      {a_job().without_training(),
       "there is nothing to run: give spec.training, or a container in spec.template.spec.containers"},
      {a_job().without_training().pod_template(R"({"spec": {"containers": [{"name": "main"}]}})"),
       "container 'main' has no image, and without spec.training there is no default"},
      {a_job().gpus_per_pod(1),
       "no container is given and the operator was installed without a worker image for GPUs: name an image in "
       "spec.template, or "
       "set the chart's workerImages"},
      {a_job().pod_template(R"({"spec": {"hostname": "mine"}})"),
       "spec.template.spec.hostname must not be set: ranks find each other by names that the operator gives"},
      {a_job().gpus_per_pod(2).pod_template(
           R"({"spec": {"containers": [{"name": "worker", "image": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}})"),
       "container 'worker' asks for 1 nvidia.com/gpu in resources.limits, but spec.gpusPerPod is 2: make them equal"},
      {a_job().gpus_per_pod(2).pod_template(
           R"({"spec": {"containers": [{"name": "worker", "image": "a", "resources": {"limits": {"nvidia.com/gpu": 2}}}]}})"),
       ""},
      {a_job().gpus_per_pod(2).pod_template(
           R"({"spec": {"containers": [{"name": "worker", "image": "a",
               "resources": {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "4"}}}]}})"),
       "container 'worker' asks for 4 nvidia.com/gpu in resources.requests, but spec.gpusPerPod is 2: make them equal"},
      {a_job().pod_template(R"({"spec": []})"), "spec.template.spec must be an object, got []"},
  };
  for (const auto& [job, fault] : jobs_and_faults) EXPECT_EQ(template_fault(job.build().spec, settings), fault);
}

TEST(TemplateFault, SaysWhichWorkerImageTheOperatorLacks) {
  const std::string fault = template_fault(a_job().build().spec, {.worker_image_cuda = "worker:cuda"});
  EXPECT_NE(fault.find("without a worker image for CPUs"), std::string::npos) << fault;
  EXPECT_EQ(template_fault(a_job().gpus_per_pod(1).build().spec, {.worker_image_cuda = "worker:cuda"}), "");
}

TEST(DecidingContainer, IsTheWorkerOrTheTemplatesOnlyOne) {
  const auto only = a_job().pod_template(R"({"spec": {"containers": [{"name": "train", "image": "a"}]}})").build().spec;
  EXPECT_EQ(deciding_container(only, {"istio-proxy", "train"}), "train");
  EXPECT_EQ(deciding_container(only, {"train", "worker"}), "worker");
  EXPECT_EQ(deciding_container(a_job().build().spec, {"main"}), "main") << "the template was edited since";
  EXPECT_EQ(deciding_container(only, {}), "");
}

}  // namespace
}  // namespace trainyard::manifest
