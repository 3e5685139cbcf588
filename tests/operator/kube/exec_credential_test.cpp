#include "operator/kube/exec_credential.hpp"

#include <gtest/gtest.h>

#include "tests/fakes/fake_clock.hpp"

namespace trainyard::kube {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

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
