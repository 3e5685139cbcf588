#include "operator/manifest/tpu.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "operator/manifest/containers.hpp"
#include "operator/manifest/objects.hpp"
#include "tests/builders/an_observed.hpp"

namespace trainyard::manifest {
namespace {

using builders::a_job;
using builders::an_observed;
using builders::JobBuilder;
using nlohmann::json;

constexpr std::string_view on_tpus = R"({"spec": {
    "nodeSelector": {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice", "cloud.google.com/gke-tpu-topology": "2x4"},
    "containers": [{"name": "worker", "image": "a", "resources": {"limits": {"google.com/tpu": 4}}}]}})";

JobBuilder a_tpu_job() {
  return a_job().without_training().pod_template(on_tpus);
}

json tpu_pod(const JobBuilder& job, std::int64_t pod_index) {
  return build_pod(an_observed(job).attempt(3).build().job, pod_index, kubernetes_traits(), {});
}

/// The values of all variables `name` of the worker.
std::vector<std::string> values_of(const json& pod, std::string_view name) {
  std::vector<std::string> values;
  for (const json& variable : pod.at("spec").at("containers").at(0).at("env")) {
    if (variable.at("name") == name) values.push_back(variable.value("value", ""));
  }
  return values;
}

using Values = std::vector<std::string>;

TEST(TpuPods, KnowTheirNumberAndAllHostsOfTheirAttempt) {
  for (const std::int64_t pod_index : {0, 1}) {
    const json pod = tpu_pod(a_tpu_job().named("bert"), pod_index);
    const std::string first = tpu_pod(a_tpu_job().named("bert"), 0).at("spec").at("hostname");
    const std::string second = tpu_pod(a_tpu_job().named("bert"), 1).at("spec").at("hostname");
    const std::string service = pod.at("spec").at("subdomain");
    EXPECT_TRUE(first.ends_with("-3-0") && second.ends_with("-3-1")) << first << second;
    EXPECT_EQ(values_of(pod, "TPU_WORKER_ID"), Values{std::to_string(pod_index)});
    EXPECT_EQ(values_of(pod, "TPU_WORKER_HOSTNAMES"), Values{first + "." + service + "," + second + "." + service});
  }
}

TEST(TpuPods, KeepWhatTheTemplateAsksFor) {
  const json spec = tpu_pod(a_tpu_job(), 0).at("spec");
  EXPECT_EQ(spec.at("nodeSelector"), json::parse(on_tpus).at("spec").at("nodeSelector"));
  EXPECT_EQ(spec.at("containers").at(0).at("resources"), json::parse(R"({"limits": {"google.com/tpu": 4}})"));
  const json with_gpus_left_to_the_default = tpu_pod(a_tpu_job().gpus_per_pod(1), 0);
  EXPECT_EQ(with_gpus_left_to_the_default.at("spec").at("containers").at(0).at("resources"),
            json::parse(R"({"limits": {"google.com/tpu": 4}})"));
}

TEST(TpuPods, HaveTheTemplatesOwnVariables) {
  json pod_template = json::parse(on_tpus);
  pod_template["spec"]["containers"][0]["env"] = {{{"name", "TPU_WORKER_HOSTNAMES"}, {"value", "a,b"}},
                                                  {{"name", "TPU_WORKER_ID"}, {"value", "$(RANK)"}}};
  const json pod = tpu_pod(a_tpu_job().pod_template(pod_template.dump()), 1);
  EXPECT_EQ(values_of(pod, "TPU_WORKER_HOSTNAMES"), Values{"a,b"});
  EXPECT_EQ(values_of(pod, "TPU_WORKER_ID"), Values{"$(RANK)"});
}

TEST(TpuPods, HaveTheirVariablesBeforeThoseThatMayReferToThem) {
  json pod_template = json::parse(on_tpus);
  pod_template["spec"]["containers"][0]["env"] = {{{"name", "ID"}, {"value", "$(TPU_WORKER_ID)"}}};
  const json environment = tpu_pod(a_tpu_job().pod_template(pod_template.dump()), 0)["spec"]["containers"][0]["env"];
  const auto place_of_name = [&](std::string_view name) {
    return std::ranges::find_if(environment, [&](const json& each) { return each.at("name") == name; });
  };
  EXPECT_LT(place_of_name("TPU_WORKER_ID"), place_of_name("ID"));
}

TEST(TpuPods, AreThoseThatAskForTpus) {
  const char* for_none = R"({"spec": {"containers": [{"name": "worker", "image": "a",
                             "resources": {"limits": {"google.com/tpu": 0}, "requests": {"google.com/tpu": "0"}}}]}})";
  for (const JobBuilder& job : {a_job().container(), a_job().without_training().pod_template(for_none)}) {
    const json pod = tpu_pod(job, 0);
    EXPECT_EQ(values_of(pod, "TPU_WORKER_ID"), Values{});
    EXPECT_EQ(values_of(pod, "TPU_WORKER_HOSTNAMES"), Values{});
  }
}

TEST(TpuPods, KnowAddressesWhereTheClusterGivesNoNames) {
  const ClusterTraits one_machine{.address_of = [](const PodPlace&) { return PodAddress{.host = "127.0.0.1"}; }};
  const json pod = build_pod(an_observed(a_tpu_job()).build().job, 0, one_machine, {});
  EXPECT_EQ(values_of(pod, "TPU_WORKER_HOSTNAMES"), Values{"127.0.0.1,127.0.0.1"});
}

TEST(TpuFault, SaysWhyNoPodCanBeMade) {
  const char* no_image =
      R"({"spec": {"containers": [{"name": "worker", "resources": {"requests": {"google.com/tpu": 4}}}]}})";
  const std::vector<std::pair<JobBuilder, std::string>> jobs_and_faults{
      {a_tpu_job(), ""},
      {a_tpu_job().gpus_per_pod(1), ""},
      {a_tpu_job().replicas(1000), ""},
      {a_job().container().gpus_per_pod(8).replicas(1001), ""},
      {a_job().pod_template(no_image),
       "container 'worker' asks for google.com/tpu, which Trainyard's own worker cannot use: name an image of yours, "
       "and leave spec.training out"},
      {a_tpu_job().gpus_per_pod(4),
       "container 'worker' asks for google.com/tpu, but spec.gpusPerPod is 4: make it 0, as a pod is one host with all "
       "of its TPU chips"},
      {a_tpu_job().replicas(1001),
       "container 'worker' asks for google.com/tpu, but spec.replicas is 1001: a TPU slice has at most 1000 pods here, "
       "whose names all stand in one variable"},
  };
  for (const auto& [job, fault] : jobs_and_faults)
    EXPECT_EQ(template_fault(job.build().spec, {.worker_image_cpu = "c", .worker_image_cuda = "g"}), fault);
}

TEST(TpuPods, HaveAListOfHostsThatLinuxTakes) {
  const JobBuilder largest = a_tpu_job().named(std::string(40, 'n')).replicas(1000);
  const json pod = tpu_pod(largest, 999);
  constexpr std::size_t bytes_max = std::size_t{128} << 10;  // MAX_ARG_STRLEN, with the name, "=" and a zero
  EXPECT_LT(values_of(pod, "TPU_WORKER_HOSTNAMES").at(0).size() + std::string_view{"TPU_WORKER_HOSTNAMES="}.size() + 1,
            bytes_max);
}

}  // namespace
}  // namespace trainyard::manifest
