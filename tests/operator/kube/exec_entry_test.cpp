#include "operator/kube/exec_entry.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard::kube {
namespace {

using nlohmann::json;

json an_exec(const json& changes = json::object()) {
  json exec{
      {"apiVersion", "client.authentication.k8s.io/v1"}, {"command", "get-token"}, {"interactiveMode", "IfAvailable"}};
  exec.merge_patch(changes);
  return exec;
}

TEST(ParseExecEntry, ReadsEveryField) {
  const auto entry = parse_exec_entry(an_exec({{"args", {"--cluster", "5"}},
                                               {"env", {{{"name", "A"}, {"value", "1=2"}}, {{"name", "B"}}}},
                                               {"installHint", "\n  Get it:\n\n\thttps://example.com/get\n"},
                                               {"interactiveMode", "Always"},
                                               {"provideClusterInfo", true}}),
                                      "/home/me/.kube");
  ASSERT_TRUE(entry) << entry.error().message;
  EXPECT_EQ(entry->api_version, "client.authentication.k8s.io/v1");
  EXPECT_EQ(entry->command, "get-token");
  EXPECT_EQ(entry->arguments, (std::vector<std::string>{"--cluster", "5"}));
  EXPECT_EQ(entry->environment, (std::map<std::string, std::string>{{"A", "1=2"}, {"B", ""}}));
  EXPECT_EQ(entry->install_hint, "Get it: https://example.com/get");
  EXPECT_EQ(entry->interactive_mode, InteractiveMode::always);
  EXPECT_TRUE(entry->is_cluster_wanted);
}

TEST(ParseExecEntry, NeedsOnlyAVersionAndACommandWithV1beta1) {
  const auto entry = parse_exec_entry({{"apiVersion", "client.authentication.k8s.io/v1beta1"},
                                       {"command", "get-token"},
                                       {"args", nullptr},
                                       {"env", nullptr},
                                       {"interactiveMode", nullptr}},
                                      "/");
  ASSERT_TRUE(entry) << entry.error().message;
  EXPECT_EQ(entry->api_version, "client.authentication.k8s.io/v1beta1");
  EXPECT_EQ(entry->interactive_mode, InteractiveMode::if_available);
  EXPECT_TRUE(entry->arguments.empty());
  EXPECT_TRUE(entry->environment.empty());
  EXPECT_EQ(entry->install_hint, "");
  EXPECT_FALSE(entry->is_cluster_wanted);
}

TEST(ParseExecEntry, TakesAPathAsRelativeToTheKubeconfig) {
  struct Row {
    const char* command;
    const char* path;
  };
  for (const Row& row : {Row{"get-token", "get-token"}, Row{"bin/get-token", "/home/me/.kube/bin/get-token"},
                         Row{"./get-token", "/home/me/.kube/./get-token"}, Row{"/usr/bin/aws", "/usr/bin/aws"}}) {
    const auto entry = parse_exec_entry(an_exec({{"command", row.command}}), "/home/me/.kube");
    ASSERT_TRUE(entry) << entry.error().message;
    EXPECT_EQ(entry->command, row.path);
  }
}

TEST(ParseExecEntry, TakesEveryInteractiveMode) {
  struct Row {
    const char* name;
    InteractiveMode mode;
  };
  for (const Row& row : {Row{"Never", InteractiveMode::never}, Row{"IfAvailable", InteractiveMode::if_available},
                         Row{"Always", InteractiveMode::always}}) {
    EXPECT_EQ(parse_exec_entry(an_exec({{"interactiveMode", row.name}}), "/")->interactive_mode, row.mode) << row.name;
  }
}

TEST(ParseExecEntry, NamesTheFieldThatIsWrongAndWhatItTakes) {
  const std::string versions = "one of client.authentication.k8s.io/v1, client.authentication.k8s.io/v1beta1";
  struct Row {
    json exec;
    std::string sentence;
  };
  for (const Row& row : {Row{"aws", "the user's exec: must be an object"},
                         Row{an_exec({{"apiVersion", nullptr}}), ".apiVersion: must be given"},
                         Row{an_exec({{"apiVersion", "client.authentication.k8s.io/v1alpha1"}}),
                             ".apiVersion: must be " + versions + ", got \"client.authentication.k8s.io/v1alpha1\""},
                         Row{an_exec({{"command", nullptr}}), ".command: must be given"},
                         Row{an_exec({{"command", ""}}), ".command: must be given"},
                         Row{an_exec({{"command", {"aws"}}}), ".command: must be a string"},
                         Row{an_exec({{"args", "get-token"}}), ".args: must be a list"},
                         Row{an_exec({{"args", {"a", 5}}}), ".args[1]: must be a string, got 5"},
                         Row{an_exec({{"env", {{"A", "b"}}}}), ".env: must be a list"},
                         Row{an_exec({{"env", {"A=b"}}}), ".env[0]: must be an object"},
                         Row{an_exec({{"env", {{{"value", "b"}}}}}), ".env[0].name: must be given"},
                         Row{an_exec({{"env", {{{"name", "A=b"}}}}}), ".env[0].name: must not contain ="},
                         Row{an_exec({{"env", {{{"name", "A"}, {"value", 1}}}}}), ".env[0].value: must be a string"},
                         Row{an_exec({{"installHint", 1}}), ".installHint: must be a string"},
                         Row{an_exec({{"interactiveMode", nullptr}}),
                             ".interactiveMode: must be given with apiVersion v1: Never, IfAvailable or Always"},
                         Row{an_exec({{"interactiveMode", "never"}}),
                             ".interactiveMode: must be one of Never, IfAvailable, Always, got \"never\""},
                         Row{an_exec({{"provideClusterInfo", "yes"}}), ".provideClusterInfo: must be true or false"}}) {
    const auto entry = parse_exec_entry(row.exec, "/");
    ASSERT_FALSE(entry) << row.exec;
    EXPECT_EQ(entry.error().kind, ErrorKind::invalid) << row.exec;
    EXPECT_NE(entry.error().message.find("the user's exec"), std::string::npos) << entry.error().message;
    EXPECT_NE(entry.error().message.find(row.sentence), std::string::npos) << entry.error().message;
  }
}

}  // namespace
}  // namespace trainyard::kube
