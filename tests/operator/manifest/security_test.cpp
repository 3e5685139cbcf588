#include "operator/manifest/security.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard::manifest {
namespace {

using nlohmann::json;

struct SecurityCase {
  std::string_view sentence;
  UserIds user_ids;
  std::string_view pod_spec;
  std::string_view pod_context;    ///< As it is afterwards; null: none.
  std::string_view first_context;  ///< The first container's.
  std::string_view second_context;
};

constexpr std::string_view restricted = R"({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}})";

TEST(AddSecurityDefaults, SayWhoContainersRunAsWhereTheUserSaysNothing) {
  const std::vector<SecurityCase> cases{
      {"ids of ours", UserIds::fixed, R"({"containers": [{}, {}]})",
       R"({"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
           "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"}})",
       restricted, restricted},
      {"no ids where the cluster gives them", UserIds::cluster, R"({"containers": [{}, {}]})",
       R"({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}})", restricted, restricted},
      {"the user's own ids", UserIds::fixed,
       R"({"securityContext": {"runAsUser": 1000, "fsGroup": 7}, "containers": [{}, {}]})",
       R"({"runAsUser": 1000, "fsGroup": 7})", restricted, restricted},
      {"the image's own user, where the user's context names none", UserIds::fixed,
       R"({"securityContext": {"supplementalGroups": [7]}, "containers": [{}, {}]})", R"({"supplementalGroups": [7]})",
       restricted, restricted},
      {"root with all its capabilities, where the pod says so", UserIds::fixed,
       R"({"securityContext": {"runAsUser": 0}, "containers": [{}, {}]})", R"({"runAsUser": 0})", "null", "null"},
      {"root of the image, where the pod allows it", UserIds::fixed,
       R"({"securityContext": {"runAsNonRoot": false}, "containers": [{}, {}]})", R"({"runAsNonRoot": false})", "null",
       "null"},
      {"root in one container alone", UserIds::fixed, R"({"containers": [{"securityContext": {"runAsUser": 0}}, {}]})",
       R"({"fsGroup": 65532, "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"}})",
       R"({"runAsUser": 0})",
       R"({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true,
           "runAsUser": 65532, "runAsGroup": 65532})"},
      {"root of the image in one container alone", UserIds::cluster,
       R"({"containers": [{"securityContext": {"runAsNonRoot": false}}, {"securityContext": {"privileged": true}}]})",
       R"({"seccompProfile": {"type": "RuntimeDefault"}})", R"({"runAsNonRoot": false})",
       R"({"privileged": true, "runAsNonRoot": true})"},
      {"root in one container alone beside one with a user of its own", UserIds::fixed,
       R"({"containers": [{"securityContext": {"runAsUser": 0}}, {"securityContext": {"runAsUser": 5}}]})",
       R"({"fsGroup": 65532, "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"}})",
       R"({"runAsUser": 0})", R"({"runAsUser": 5, "runAsNonRoot": true, "runAsGroup": 65532})"},
      {"root in an init container alone", UserIds::fixed,
       R"({"initContainers": [{"securityContext": {"runAsUser": 0}}], "containers": [{}, {}]})",
       R"({"fsGroup": 65532, "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"}})",
       R"({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true,
           "runAsUser": 65532, "runAsGroup": 65532})",
       R"({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true,
           "runAsUser": 65532, "runAsGroup": 65532})"},
      {"a context of the user's own that says nothing of users", UserIds::fixed,
       R"({"containers": [{"securityContext": {"privileged": true}}, {}]})",
       R"({"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
           "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"}})",
       R"({"privileged": true})", restricted},
      {"the pod's own user beside one container with root", UserIds::fixed,
       R"({"securityContext": {"runAsUser": 7}, "containers": [{"securityContext": {"runAsUser": 0}}, {}]})",
       R"({"runAsUser": 7})", R"({"runAsUser": 0})", restricted},
  };
  for (const SecurityCase& c : cases) {
    json pod_spec = json::parse(c.pod_spec);
    add_security_defaults(pod_spec, c.user_ids);
    EXPECT_EQ(pod_spec.value("securityContext", json{}), json::parse(c.pod_context)) << c.sentence;
    EXPECT_EQ(pod_spec.at("containers").at(0).value("securityContext", json{}), json::parse(c.first_context))
        << c.sentence;
    EXPECT_EQ(pod_spec.at("containers").at(1).value("securityContext", json{}), json::parse(c.second_context))
        << c.sentence;
  }
}

TEST(AddSecurityDefaults, GiveAHomeToAUserThatTheImageDoesNotKnow) {
  const json ours = json::parse(R"([{"name": "HOME", "value": "/tmp"}, {"name": "USER", "value": "trainyard"}])");
  struct HomeCase {
    std::string_view sentence;
    UserIds user_ids;
    std::string_view pod_context;
    std::string_view container;
    json environment;
  };
  const std::vector<HomeCase> cases{
      {"of our choice", UserIds::fixed, "null", "{}", ours},
      {"of the cluster's choice", UserIds::cluster, "null", "{}", ours},
      {"beside other variables", UserIds::fixed, "null", R"({"env": [{"name": "A", "value": "b"}]})",
       json::parse(R"([{"name": "A", "value": "b"}, {"name": "HOME", "value": "/tmp"},
                       {"name": "USER", "value": "trainyard"}])")},
      {"but no other where the template has one", UserIds::fixed, "null",
       R"({"env": [{"name": "HOME", "value": "/home/me"}, {"name": "USER", "value": "me"}]})",
       json::parse(R"([{"name": "HOME", "value": "/home/me"}, {"name": "USER", "value": "me"}])")},
      {"and none to root", UserIds::fixed, "null", R"({"securityContext": {"runAsUser": 0}})", nullptr},
      {"nor to the user of an image that may be root", UserIds::fixed, "null",
       R"({"securityContext": {"runAsNonRoot": false}})", nullptr},
      {"nor to a container's own user", UserIds::fixed, "null", R"({"securityContext": {"runAsUser": 7}})", nullptr},
      {"nor to a pod's own user", UserIds::fixed, R"({"runAsUser": 7})", "{}", nullptr},
      {"nor to a process of this machine", UserIds::process, "null", "{}", nullptr},
  };
  for (const HomeCase& c : cases) {
    json pod_spec{{"initContainers", json::array({json::parse(c.container)})}};
    if (const json context = json::parse(c.pod_context); !context.is_null()) pod_spec["securityContext"] = context;
    add_security_defaults(pod_spec, c.user_ids);
    EXPECT_EQ(pod_spec.at("initContainers").at(0).value("env", json{}), c.environment) << c.sentence;
  }
}

TEST(AddSecurityDefaults, RestrictInitContainersToo) {
  json pod_spec = json::parse(R"({"initContainers": [{}, {"securityContext": {"runAsUser": 0}}], "containers": [{}]})");
  add_security_defaults(pod_spec, UserIds::cluster);
  EXPECT_EQ(pod_spec.at("initContainers").at(0).at("securityContext"),
            json::parse(R"({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
                            "runAsNonRoot": true})"));
  EXPECT_EQ(pod_spec.at("initContainers").at(1).at("securityContext"), json::parse(R"({"runAsUser": 0})"));
}

TEST(AddSecurityDefaults, MountNoServiceAccountTokenThatNobodyAskedFor) {
  const auto mounted = [](std::string_view text) {
    json pod_spec = json::parse(text);
    add_security_defaults(pod_spec, UserIds::fixed);
    return pod_spec.value("automountServiceAccountToken", json{});
  };
  EXPECT_EQ(mounted("{}"), false);
  EXPECT_EQ(mounted(R"({"serviceAccountName": "reader"})"), nullptr);
  EXPECT_EQ(mounted(R"({"automountServiceAccountToken": true})"), true);
}

}  // namespace
}  // namespace trainyard::manifest
