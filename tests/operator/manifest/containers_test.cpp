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

TEST(TemplateShapeFault, KnowsTheTypeOfEachFieldThatTheOperatorReads) {
  struct Row {
    const char* before;  ///< The template up to the field's wrong value.
    const char* after;
    const char* place;
    const char* type;
  };
  const std::string affinity =
      R"({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": )";
  const std::string term = affinity + R"([{"matchExpressions": )";
  const std::string first_term = affinity + "[";
  const std::string terms_place =
      "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
  const std::string first_term_place = terms_place + "[0]";
  const std::string expressions_place = first_term_place + ".matchExpressions";
  const std::vector<Row> rows{
      {R"({"metadata": )", "}", "metadata", "an object"},
      {R"({"metadata": {"labels": )", "}}", "metadata.labels", "an object"},
      {R"({"metadata": {"annotations": )", "}}", "metadata.annotations", "an object"},
      {R"({"spec": )", "}", "spec", "an object"},
      {R"({"spec": {"terminationGracePeriodSeconds": )", "}}", "spec.terminationGracePeriodSeconds", "an integer"},
      {R"({"spec": {"securityContext": )", "}}", "spec.securityContext", "an object"},
      {R"({"spec": {"imagePullSecrets": )", "}}", "spec.imagePullSecrets", "a list"},
      {R"({"spec": {"volumes": )", "}}", "spec.volumes", "a list"},
      {R"({"spec": {"tolerations": )", "}}", "spec.tolerations", "a list"},
      {R"({"spec": {"tolerations": [)", "]}}", "spec.tolerations[0]", "an object"},
      {R"({"spec": {"tolerations": [{"key": )", "}]}}", "spec.tolerations[0].key", "a string"},
      {R"({"spec": {"tolerations": [{"operator": )", "}]}}", "spec.tolerations[0].operator", "a string"},
      {R"({"spec": {"affinity": )", "}}", "spec.affinity", "an object"},
      {R"({"spec": {"affinity": {"nodeAffinity": )", "}}}", "spec.affinity.nodeAffinity", "an object"},
      {affinity.c_str(), "}}}}}", terms_place.c_str(), "a list"},
      {first_term.c_str(), "]}}}}}", first_term_place.c_str(), "an object"},
      {term.c_str(), "}]}}}}}", expressions_place.c_str(), "a list"},
      {R"({"spec": {"initContainers": )", "}}", "spec.initContainers", "a list"},
      {R"({"spec": {"initContainers": [)", "]}}", "spec.initContainers[0]", "an object"},
      {R"({"spec": {"initContainers": [{"env": )", "}]}}", "spec.initContainers[0].env", "a list"},
      {R"({"spec": {"initContainers": [{"env": [)", "]}]}}", "spec.initContainers[0].env[0]", "an object"},
      {R"({"spec": {"initContainers": [{"env": [{"name": )", "}]}]}}", "spec.initContainers[0].env[0].name",
       "a string"},
      {R"({"spec": {"initContainers": [{"securityContext": )", "}]}}", "spec.initContainers[0].securityContext",
       "an object"},
      {R"({"spec": {"containers": )", "}}", "spec.containers", "a list"},
      {R"({"spec": {"containers": [)", "]}}", "spec.containers[0]", "an object"},
      {R"({"spec": {"containers": [{"name": )", "}]}}", "spec.containers[0].name", "a string"},
      {R"({"spec": {"containers": [{"image": )", "}]}}", "spec.containers[0].image", "a string"},
      {R"({"spec": {"containers": [{"env": )", "}]}}", "spec.containers[0].env", "a list"},
      {R"({"spec": {"containers": [{"env": [)", "]}]}}", "spec.containers[0].env[0]", "an object"},
      {R"({"spec": {"containers": [{"env": [{"name": )", "}]}]}}", "spec.containers[0].env[0].name", "a string"},
      {R"({"spec": {"containers": [{"volumeMounts": [)", "]}]}}", "spec.containers[0].volumeMounts[0]", "an object"},
      {R"({"spec": {"containers": [{"resources": )", "}]}}", "spec.containers[0].resources", "an object"},
  };
  for (const Row& row : rows) {
    for (const char* value : {"true", "null"}) {
      const std::string text = std::string{row.before} + value + row.after;
      EXPECT_EQ(template_shape_fault(nlohmann::json::parse(text)),
                std::string{"spec.template."} + row.place + " must be " + row.type + ", got " + value)
          << text;
    }
  }
  EXPECT_EQ(template_shape_fault(nlohmann::json::parse(R"({"spec": {"terminationGracePeriodSeconds": 1.5}})")),
            "spec.template.spec.terminationGracePeriodSeconds must be an integer, got 1.5");
  EXPECT_EQ(template_shape_fault(nlohmann::json::parse(R"({"spec": {"containers": [{}, {"name": 7}]}})")),
            "spec.template.spec.containers[1].name must be a string, got 7");
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
      {a_job().pod_template(R"({"spec": {"subdomain": "mine"}})"),
       "spec.template.spec.subdomain must not be set: ranks find each other by names that the operator gives"},
      {a_job().gpus_per_pod(2).pod_template(
           R"({"spec": {"containers": [{"name": "main", "image": "a", "resources": {"requests": {"nvidia.com/gpu": 1}}}]}})"),
       "container 'main' asks for 1 nvidia.com/gpu in resources.requests, but spec.gpusPerPod is 2: make them equal"},
      {a_job().pod_template(
           R"({"spec": {"containers": [{"name": "worker", "image": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}})"),
       "container 'worker' asks for 1 nvidia.com/gpu in resources.limits, but spec.gpusPerPod is 0: make them equal"},
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

TEST(DevicesOf, AreTheExtendedResourcesOfADomainThatIsNotKubernetes) {
  const auto devices = [](const char* resources) {
    return devices_of({{"resources", nlohmann::json::parse(resources)}});
  };
  using Devices = std::set<std::string>;
  EXPECT_EQ(devices(R"({"limits": {"cpu": 1, "hugepages-2Mi": "4Mi", "nvidia.com/gpu": 1, "a.io/b": 0}})"),
            (Devices{"nvidia.com/gpu", "a.io/b"}));
  EXPECT_EQ(devices(R"({"requests": {"rdma/hca": 1}, "limits": {"nvidia.com/gpu": 1}})"),
            (Devices{"nvidia.com/gpu", "rdma/hca"}));
  EXPECT_EQ(devices(R"({"limits": {"kubernetes.io/a": 1, "node.kubernetes.io/b": 1}})"), Devices{});
  EXPECT_EQ(devices(R"({"limits": {"kubernetes.io.example.com/a": 1}})"), Devices{"kubernetes.io.example.com/a"});
  EXPECT_EQ(devices(R"({"limits": null, "requests": []})"), Devices{});
  EXPECT_EQ(devices("[]"), Devices{});
}

TEST(RanksPerPod, IsOneForEachGpuAndAtLeastOne) {
  EXPECT_EQ(ranks_per_pod(a_job().gpus_per_pod(0).build().spec), 1);
  EXPECT_EQ(ranks_per_pod(a_job().gpus_per_pod(1).build().spec), 1);
  EXPECT_EQ(ranks_per_pod(a_job().gpus_per_pod(8).build().spec), 8);
  EXPECT_EQ(ranks_per_pod(a_job().gpus_per_pod(8).without_training().container().build().spec), 8);
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
