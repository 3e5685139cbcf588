#include "tests/corpus/corpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "api/validation/validate.hpp"
#include "cli/job_file.hpp"
#include "common/try.hpp"
#include "operator/kube/config_sources.hpp"
#include "operator/kube/http_api.hpp"
#include "tests/cluster/control_plane.hpp"

namespace trainyard {
namespace {

using nlohmann::json;

class CorpusOnApiServer : public cluster::ControlPlaneTest {
 protected:
  void SetUp() override {
    ControlPlaneTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto config = kube::load_kubeconfig(control_plane().kubeconfig().string());
    ASSERT_TRUE(config) << config.error().message;
    auto api = kube::HttpApi::make(std::move(*config));
    ASSERT_TRUE(api) << api.error().message;
    api_ = std::move(*api);
    auto name_space = control_plane().create_namespace("corpus");
    ASSERT_TRUE(name_space) << name_space.error().message;
    name_space_ = *name_space;
  }

  /// The server's answer to the case's object; success when it accepts the object.
  Result<json> apply(const corpus::Case& tested) {
    if (!tested.before) {
      return api_->create(kube::training_jobs, name_space_, tested.object, {.is_dry_run = true, .is_strict = true});
    }
    const auto created = api_->create(kube::training_jobs, name_space_, *tested.before, {.is_strict = true});
    if (!created) return fail("the stored form", created.error());
    json changed = tested.object;
    changed["metadata"]["resourceVersion"] = created->at("metadata").at("resourceVersion");
    auto reply = api_->update(kube::training_jobs, name_space_, changed);
    TRY(api_->remove(kube::training_jobs, name_space_, tested.before->at("metadata").at("name").get<std::string>()));
    return reply;
  }

  std::unique_ptr<kube::HttpApi> api_;
  std::string name_space_;
};

TEST_F(CorpusOnApiServer, GetsTheVerdictsAndDefaultsThatAreGivenWithoutAServer) {
  for (const corpus::Case& tested : corpus::load()) {
    const Result<json> reply = apply(tested);
    const std::string said = reply ? "accepted" : reply.error().message;
    if (tested.says.empty()) {
      EXPECT_TRUE(reply) << tested << ": " << said;
      if (reply) {
        EXPECT_EQ(reply->at("spec"), api::with_defaults(tested.object).at("spec")) << tested;
      }
      continue;
    }
    EXPECT_FALSE(reply) << tested;
    EXPECT_NE(said.find(tested.server_says), std::string::npos)
        << tested << ": expected ..." << tested.server_says << "..., got " << said;
    EXPECT_NE(said.find(tested.server_field), std::string::npos)
        << tested << ": " << tested.server_field << " is not in: " << said;
  }
}

/// The fields of `type` in the API server's own description, such as "PodSpec".
std::vector<std::string> fields_of(const json& description, const std::string& type) {
  std::vector<std::string> names;
  for (const auto& [name, schema] :
       description.at("/components/schemas"_json_pointer).at("io.k8s.api.core.v1." + type).at("properties").items())
    names.push_back(name);
  return names;
}

TEST_F(CorpusOnApiServer, KnowsNoFieldOfAPodThatIsTakenForAMistype) {
  const auto printed = control_plane().kubectl({"get", "--raw", "/openapi/v3/api/v1"});
  ASSERT_TRUE(printed) << printed.error().message;
  const json description = json::parse(*printed);
  const auto object_of = [&](const char* type) {
    json object = json::object();
    for (const std::string& name : fields_of(description, type)) object[name] = nullptr;
    return object;
  };
  json container = object_of("Container");
  container["resources"] = object_of("ResourceRequirements");
  container["env"] = json::array({object_of("EnvVar")});
  container["envFrom"] = json::array({object_of("EnvFromSource")});
  container["volumeMounts"] = json::array({object_of("VolumeMount")});
  json pod = object_of("PodSpec");
  pod["containers"] = pod["initContainers"] = json::array({container});
  EXPECT_THAT(cli::mistyped_template_fields({{"spec", {{"template", {{"spec", pod}}}}}}), testing::IsEmpty());
}

}  // namespace
}  // namespace trainyard
