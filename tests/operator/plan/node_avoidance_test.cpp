#include "operator/plan/node_avoidance.hpp"

#include <gtest/gtest.h>

#include <map>

#include "operator/plan/plan.hpp"
#include "tests/builders/an_observed.hpp"

namespace trainyard::plan {
namespace {

using builders::an_observed;
using builders::start;
using nlohmann::json;
using Names = std::vector<std::string>;
using namespace std::chrono_literals;

resource::Node a_node(const std::string& name, bool is_ready, std::string host_name = {}) {
  return {.metadata = {.name = name, .uid = "uid-of-" + name}, .host_name = std::move(host_name), .is_ready = is_ready};
}

Observed avoiding(const Names& nodes, const std::vector<resource::Node>& known = {}) {
  return an_observed().with([&](Observed& observed) {
    observed.job.status.avoided_nodes = nodes;
    for (const resource::Node& node : known) observed.nodes[node.metadata.name] = node;
  });
}

TEST(NextAvoidedNodes, AreThoseLostNowAndThoseLostBeforeThatAreNotKnownToBeBack) {
  struct Case {
    std::string_view sentence;
    Names avoided;
    std::vector<resource::Node> known;
    Names lost_now;
    Names next;
  };
  const std::vector<Case> cases{
      {"a lost rank without a node", {}, {}, {}, {}},
      {"the node lost now", {}, {}, {"a"}, {"a"}},
      {"one that is lost again, once", {"a"}, {a_node("a", false)}, {"a"}, {"a"}},
      {"one that is still not ready", {"a"}, {a_node("a", false)}, {"b"}, {"b", "a"}},
      {"one that is back is used again", {"a"}, {a_node("a", true)}, {"b"}, {"b"}},
      {"one that is gone may come back", {"a"}, {}, {"b"}, {"b", "a"}},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(next_avoided_nodes(avoiding(c.avoided, c.known), {.lost_nodes = c.lost_now}), c.next) << c.sentence;
  }
}

TEST(NextAvoidedNodes, AreBounded) {
  Names many;
  for (int index = 0; index < 40; ++index) many.push_back("lost-" + std::to_string(index));
  EXPECT_EQ(next_avoided_nodes(avoiding({}), {.lost_nodes = many}), Names(many.begin(), many.begin() + 16));
  const Names most(many.begin(), many.begin() + 16);
  EXPECT_EQ(next_avoided_nodes(avoiding({}), {.lost_nodes = most}), most);
  const Names oldest_last =
      next_avoided_nodes(avoiding(Names(many.begin(), many.begin() + 16)), {.lost_nodes = {"new"}});
  EXPECT_EQ(oldest_last.size(), 16U);
  EXPECT_EQ(oldest_last.front(), "new");
  EXPECT_EQ(oldest_last.back(), "lost-14");
}

TEST(AvoidedHostNames, AreTheNodesLabels) {
  struct Case {
    std::string_view sentence;
    Names avoided;
    std::vector<resource::Node> known;
    Names host_names;
  };
  const std::vector<Case> cases{
      {"of no node", {}, {a_node("a", false, "host-a")}, {}},
      {"of a node that is known", {"a"}, {a_node("a", false, "host-a")}, {"host-a"}},
      {"of a node without the label its name", {"a"}, {a_node("a", false)}, {"a"}},
      {"of a node that is gone, or that the operator may not read, its name", {"a"}, {}, {"a"}},
      {"of several in their order", {"b", "a"}, {a_node("a", false, "host-a")}, {"b", "host-a"}},
  };
  for (const Case& c : cases) EXPECT_EQ(avoided_host_names(avoiding(c.avoided, c.known)), c.host_names) << c.sentence;
}

TEST(AvoidedHostNames, KeepOffThePodsOfTheNextAttempt) {
  Observed observed = avoiding({"a"}, {a_node("a", false, "host-a")});
  observed.pods.clear();
  observed.job.status.is_formed = false;
  const Plan plan = make_plan(observed, start + 1s);
  int pods = 0;
  for (const Action& action : plan.actions) {
    const auto* create = std::get_if<CreatePod>(&action);
    if (create == nullptr) continue;
    ++pods;
    EXPECT_NE(create->pod().dump().find(R"("values":["host-a"])"), std::string::npos) << create->pod();
  }
  EXPECT_EQ(pods, 2);
}

TEST(TimeUntilNodesAreForgiven, RunsWhileTheGroupFindsNoRoomWithoutThem) {
  const auto status = [](api::Phase phase, const std::string& reason, std::optional<Time> not_before = {}) {
    api::TrainingJobStatus made;
    made.avoided_nodes = {"a"};
    made.phase = phase;
    made.reason = reason;
    made.attempts = {{.number = 2, .start = start}};
    made.restart_not_before = not_before;
    return made;
  };
  using api::Phase;
  EXPECT_EQ(time_until_nodes_are_forgiven(status(Phase::pending, "Unschedulable"), start + 20s), 40s);
  EXPECT_EQ(time_until_nodes_are_forgiven(status(Phase::pending, "Unschedulable"), start + 61s), 0s);
  EXPECT_EQ(time_until_nodes_are_forgiven(status(Phase::pending, "Unschedulable", start + 30s), start + 40s), 50s);
  EXPECT_EQ(time_until_nodes_are_forgiven(status(Phase::pending, "Unschedulable", start + 300s), start + 61s), 299s)
      << "no pod was made yet that could find room";
  EXPECT_FALSE(time_until_nodes_are_forgiven(status(Phase::pending, "QuotaExceeded"), start + 20s));
  EXPECT_FALSE(time_until_nodes_are_forgiven(status(Phase::running, ""), start + 20s));
  EXPECT_FALSE(time_until_nodes_are_forgiven(status(Phase::running, "Unschedulable"), start + 61s));
  const auto without = [&](void (*remove)(api::TrainingJobStatus&)) {
    api::TrainingJobStatus made = status(Phase::pending, "Unschedulable");
    remove(made);
    return time_until_nodes_are_forgiven(made, start + 61s);
  };
  EXPECT_FALSE(without([](api::TrainingJobStatus& made) { made.avoided_nodes.clear(); }));
  EXPECT_FALSE(without([](api::TrainingJobStatus& made) { made.attempts.clear(); }));
  EXPECT_FALSE(without([](api::TrainingJobStatus& made) { made.attempts.back().start.reset(); }));
}

}  // namespace
}  // namespace trainyard::plan
