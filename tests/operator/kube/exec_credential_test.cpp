#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "operator/kube/exec_credential.hpp"
#include "tests/fakes/fake_clock.hpp"

namespace trainyard::kube {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(OnOneLine, JoinsTheWordsAndLeavesOutWhatIsTooLong) {
  struct Row {
    std::string_view text;
    std::string_view line;
  };
  for (const Row& row : {Row{"", ""}, Row{" \n\t", ""}, Row{"one", "one"},
                         Row{"  Get it:\r\n\x1b[1mgo\x7fnow. \n", "Get it: [1mgo now"}, Row{"no more...", "no more"},
                         Row{"five5 sixsix five5", "five5 ... five5"}, Row{"five5 sixsix.", "five5 ..."}}) {
    EXPECT_EQ(on_one_line(row.text, 5), row.line) << row.text;
  }
  EXPECT_EQ(on_one_line("a word that is sixsix"), "a word that is sixsix");
}

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

constexpr std::string_view v1 = "client.authentication.k8s.io/v1";

ExecEntry an_entry(bool is_cluster_wanted) {
  ExecEntry entry;
  entry.api_version = v1;
  entry.is_cluster_wanted = is_cluster_wanted;
  return entry;
}

TEST(MakeExecInfo, LeavesOutTheClusterUnlessItIsWanted) {
  const ExecCluster cluster{.server = "https://10.0.0.1", .ca_pem = "ca", .config = {{"audience", "x"}}};
  EXPECT_EQ(json::parse(make_exec_info(an_entry(false), cluster, true)),
            json::parse(R"({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                            "spec": {"interactive": true}})"));
}

TEST(MakeExecInfo, DescribesTheClusterIfItIsWanted) {
  EXPECT_EQ(json::parse(make_exec_info(
                an_entry(true), {.server = "https://10.0.0.1", .ca_pem = "ca", .config = {{"audience", "x"}}}, false)),
            json::parse(R"({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                            "spec": {"interactive": false,
                                     "cluster": {"server": "https://10.0.0.1", "certificate-authority-data": "Y2E=",
                                                 "config": {"audience": "x"}}}})"));
  EXPECT_EQ(
      json::parse(make_exec_info(an_entry(true), {.server = "https://10.0.0.1", .ca_pem = {}, .config = {}}, false)),
      json::parse(R"({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                            "spec": {"interactive": false, "cluster": {"server": "https://10.0.0.1"}}})"));
}

std::string a_reply(const json& status) {
  return json{{"apiVersion", v1}, {"kind", "ExecCredential"}, {"status", status}}.dump();
}

TEST(ParseExecCredential, TakesATokenACertificateOrBoth) {
  const json certificate{{"clientCertificateData", "cert"}, {"clientKeyData", "key"}};
  EXPECT_EQ(parse_exec_credential(a_reply({{"token", "t"}}), v1),
            (ExecCredential{.token = "t", .certificate_pem = {}, .key_pem = {}, .expires_at = {}}));
  EXPECT_EQ(parse_exec_credential(a_reply(certificate), v1),
            (ExecCredential{.token = {}, .certificate_pem = "cert", .key_pem = "key", .expires_at = {}}));
  json both = certificate;
  both["token"] = "t";
  both["expirationTimestamp"] = "2026-01-01T00:00:30Z";
  const Time expires_at = fakes::FakeClock{}.now() + seconds{30};
  EXPECT_EQ(parse_exec_credential(a_reply(both), v1),
            (ExecCredential{.token = "t", .certificate_pem = "cert", .key_pem = "key", .expires_at = expires_at}));
  EXPECT_EQ(parse_exec_credential(a_reply({{"token", "t"}, {"expirationTimestamp", nullptr}}), v1)->expires_at,
            std::nullopt);
}

TEST(ParseExecCredential, SaysWhatIsWrongAndNothingOfASecret) {
  struct Row {
    std::string output;
    const char* sentence;
  };
  const std::string other = "it did not answer in client.authentication.k8s.io/v1, in which it was asked";
  for (const Row& row :
       {Row{"", "it printed no JSON object"},
        Row{"secret", "it printed no JSON object"},
        Row{"[\"secret\"]", "it printed no JSON object"},
        Row{R"({"token":"secret"})", "an object of another kind"},
        Row{R"({"kind":"Secret","apiVersion":"client.authentication.k8s.io/v1"})", "an object of another kind"},
        Row{R"({"kind":"ExecCredential","status":{"token":"secret"}})", other.c_str()},
        Row{R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1",
                "status":{"token":"secret"}})",
            other.c_str()},
        Row{R"({"kind":"ExecCredential","apiVersion":1,"status":{"token":"secret"}})", other.c_str()},
        Row{R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1"})", "has no status"},
        Row{a_reply("secret"), "has no status"},
        Row{a_reply({{"token", {"secret"}}}), "status.token is not a string"},
        Row{a_reply({{"token", "secret"}, {"clientKeyData", 5}}), "status.clientKeyData is not a string"},
        Row{a_reply({{"clientCertificateData", "secret"}}), "only one of clientCertificateData and clientKeyData"},
        Row{a_reply({{"token", "secret"}, {"clientKeyData", "secret"}}),
            "only one of clientCertificateData and clientKeyData"},
        Row{a_reply(json::object()), "neither a token nor a client certificate"},
        Row{a_reply({{"token", ""}}), "neither a token nor a client certificate"},
        Row{a_reply({{"token", "secret\n"}}), "no header can carry"},
        Row{a_reply({{"token", "secret\r\nX-Header: y"}}), "no header can carry"},
        Row{a_reply({{"token", "secret more"}}), "no header can carry"},
        Row{a_reply({{"token", "secret\x7f"}}), "no header can carry"},
        Row{a_reply({{"token", "secret\u00e9"}}), "no header can carry"},
        Row{a_reply({{"clientCertificateData", "secret"}, {"clientKeyData", ""}}),
            "only one of clientCertificateData and clientKeyData"},
        Row{a_reply({{"token", "secret"}, {"expirationTimestamp", "secret"}}),
            "status.expirationTimestamp is not a time"},
        Row{a_reply({{"token", "secret"}, {"expirationTimestamp", 5}}),
            "status.expirationTimestamp is not a string"}}) {
    const auto credential = parse_exec_credential(row.output, v1);
    ASSERT_FALSE(credential) << row.output;
    EXPECT_EQ(credential.error().kind, ErrorKind::unauthorized) << row.output;
    EXPECT_NE(credential.error().message.find(row.sentence), std::string::npos) << credential.error().message;
    EXPECT_EQ(credential.error().message.find("secret"), std::string::npos) << credential.error().message;
  }
}

TEST(RenewalTime, IsShortlyBeforeTheExpiryButNotAtEachRequest) {
  const Time now = fakes::FakeClock{}.now();
  struct Row {
    const char* what;
    std::optional<Time> expires_at;
    Time renewed_at;
  };
  for (const Row& row :
       {Row{"never expires", std::nullopt, Time::max()},
        Row{"expires in an hour", now + seconds{3600}, now + seconds{3590}},
        Row{"expires in 15 s", now + seconds{15}, now + seconds{5}}, Row{"expires at once", now, now + seconds{5}},
        Row{"has expired", now - seconds{3600}, now + seconds{5}}}) {
    ExecCredential credential;
    credential.expires_at = row.expires_at;
    EXPECT_EQ(renewal_time(credential, now), row.renewed_at) << row.what;
  }
}

}  // namespace
}  // namespace trainyard::kube
