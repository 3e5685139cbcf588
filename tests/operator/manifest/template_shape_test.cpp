#include "operator/manifest/template_shape.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard::manifest {
namespace {

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
      {R"({"spec": {"terminationGracePeriodSeconds": "1m"}})",
       R"(spec.template.spec.terminationGracePeriodSeconds must be an integer, got "1m")"},
  };
  for (const auto& [text, fault] : templates_and_faults) {
    EXPECT_EQ(template_shape_fault(nlohmann::json::parse(text)), fault) << text;
  }
}

}  // namespace
}  // namespace trainyard::manifest
