#include "cli/job_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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

}  // namespace
}  // namespace trainyard::cli
