#include "operator/manifest/worker_pod.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard::manifest {
namespace {

using nlohmann::json;

struct AffinityCase {
  std::string_view sentence;
  std::string_view affinity;  ///< The template's.
  std::vector<std::string> host_names;
  std::string_view expected;
};

TEST(AvoidHosts, KeepsOffThemByTheirLabel) {
  const std::string ours = R"({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["gpu-17", "gpu-3"]})";
  const std::vector<AffinityCase> cases{
      {"where the template has no affinity", "null", {"gpu-17", "gpu-3"}, R"([{"matchExpressions": [OURS]}])"},
      {"in each of the user's terms, since one of them is enough",
       R"({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
           {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
           {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]}}})",
       {"gpu-17", "gpu-3"},
       R"([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}, OURS]},
           {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}], "matchExpressions": [OURS]}])"},
      {"beside what the user only prefers",
       R"({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}})",
       {"gpu-17", "gpu-3"},
       R"([{"matchExpressions": [OURS]}])"},
      {"and adds nothing where there are none", R"({"podAffinity": {}})", {}, "null"},
  };
  for (const AffinityCase& c : cases) {
    json pod_spec = json::object();
    if (const json affinity = json::parse(c.affinity); !affinity.is_null()) pod_spec["affinity"] = affinity;
    avoid_hosts(pod_spec, c.host_names);
    std::string expected{c.expected};
    for (auto at = expected.find("OURS"); at != std::string::npos; at = expected.find("OURS"))
      expected.replace(at, 4, ours);
    EXPECT_EQ(
        pod_spec.value(
            "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"_json_pointer,
            json{}),
        json::parse(expected))
        << c.sentence;
  }
}

}  // namespace
}  // namespace trainyard::manifest
