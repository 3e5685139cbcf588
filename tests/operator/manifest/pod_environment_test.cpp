#include "operator/manifest/pod_environment.hpp"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/builders/an_observed.hpp"

namespace trainyard::manifest {
namespace {

using builders::a_job;
using builders::an_observed;
using nlohmann::json;
using Variables = std::map<std::string, std::string>;

/// Traits that give each rank its own ports, as pods that share an address need.
ClusterTraits shared_address() {
  return {.address_of = [](const PodPlace& place) {
    const auto base = static_cast<std::uint16_t>(1'000 * place.attempt + 100 * place.pod_index);
    return PodAddress{.host = "127.0.0.1",
                      .master_port = static_cast<std::uint16_t>(base + 1),
                      .store_port = static_cast<std::uint16_t>(base + 2),
                      .peer_port = static_cast<std::uint16_t>(base + 3),
                      .status_port = static_cast<std::uint16_t>(base + 4)};
  }};
}

Variables environment_of_rank(const builders::JobBuilder& job, std::int64_t rank) {
  const api::TrainingJob attempted = an_observed(job).attempt(2).build().job;
  Variables variables;
  for (const auto& [name, value] : pod_environment(attempted, 3, rank, 45, shared_address())) {
    EXPECT_TRUE(variables.emplace(name, value).second) << name << " is there twice";
  }
  return variables;
}

TEST(PodEnvironment, LeadsEveryRankToRankZerosPortsAndTheOperatorToItsOwn) {
  for (const std::int64_t rank : {0, 1, 2}) {
    Variables expected{{"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", "2001"},
                       {"PET_MASTER_ADDR", "127.0.0.1"},
                       {"PET_MASTER_PORT", "2001"},
                       {"TRAINYARD_STORE_PORT", "2002"},
                       {"TRAINYARD_PEER_PORT", "2003"},
                       {"TRAINYARD_STATUS_PORT", std::to_string(2'004 + 100 * rank)},
                       {"TRAINYARD_GRACE_SECONDS", "45"},
                       {"TRAINYARD_ATTEMPT", "2"},
                       {"TORCHELASTIC_RESTART_COUNT", "1"},
                       {"RANK", std::to_string(rank)},
                       {"ROLE_RANK", std::to_string(rank)},
                       {"NODE_RANK", std::to_string(rank)},
                       {"GROUP_RANK", std::to_string(rank)},
                       {"PET_NODE_RANK", std::to_string(rank)},
                       {"WORLD_SIZE", "3"},
                       {"LOCAL_RANK", "0"}};
    const Variables environment = environment_of_rank(a_job(), rank);
    for (const auto& [name, value] : expected) {
      ASSERT_TRUE(environment.contains(name)) << name;
      EXPECT_EQ(environment.at(name), value) << name << " of rank " << rank;
    }
  }
}

TEST(PodEnvironment, GivesTheWorkerThePathWhereItsDataAreMounted) {
  struct Row {
    std::string sentence;
    std::string claim;
    std::string path;
    std::string expected;
  };
  const std::vector<Row> rows{{"a folder of the claim", "datasets", "fashion", "/data/fashion"},
                              {"the whole claim", "datasets", "", "/data"},
                              {"a path of the image's own", "", "/opt/fashion", "/opt/fashion"}};
  for (const Row& row : rows) {
    api::TrainingJob job = a_job();
    job.spec.training->data.volume_claim = row.claim;
    job.spec.training->data.path = row.path;
    for (const auto& [name, value] : pod_environment(job, 1, 0, 30, kubernetes_traits())) {
      if (name != "TRAINYARD_SPEC") continue;
      EXPECT_EQ(json::parse(value).at("training").at("data").at("path"), row.expected) << row.sentence;
    }
  }
}

TEST(PodEnvironment, LeavesOutOfTheWorkersSpecWhatTheOperatorDecides) {
  builders::JobBuilder job = a_job().on_delete();
  const json spec = json::parse(environment_of_rank(job, 0).at("TRAINYARD_SPEC"));
  EXPECT_EQ(spec.at("checkpoint").at("uri"), "s3://models/smoke");
  EXPECT_FALSE(spec.at("checkpoint").contains("onDelete"));
  EXPECT_FALSE(spec.at("checkpoint").contains("onSuspend"));
  const json bare = json::parse(environment_of_rank(a_job().without_training(), 0).at("TRAINYARD_SPEC"));
  EXPECT_FALSE(bare.contains("checkpoint")) << bare;
  EXPECT_FALSE(bare.contains("training")) << bare;
}

}  // namespace
}  // namespace trainyard::manifest
