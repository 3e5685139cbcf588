#include "operator/kube/tls.hpp"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <memory>

#include "common/try.hpp"
#include "operator/kube/http_api.hpp"
#include "tests/fakes/scripted_api_server.hpp"

namespace trainyard::kube {
namespace {

using fakes::answer_json;
using fakes::CertificateAuthority;
using fakes::ScriptedApiServer;

const ScriptedApiServer::Answer empty_object = [](const auto&, auto& response) { answer_json(response, "{}"); };

Result<json> get_with(const ClientConfig& config) {
  const auto api = TRY(HttpApi::make(config));
  return api->get(pods, "a", "b");
}

TEST(Tls, RefusesAServerThatAnotherAuthorityVouchesFor) {
  ScriptedApiServer server{empty_object};
  ClientConfig config = server.config();
  config.authorities = AuthoritySource::of_text(CertificateAuthority{"somebody else"}.pem());
  const auto got = get_with(config);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::unavailable);
  EXPECT_NE(got.error().message.find("is not trusted: unable to get local issuer certificate"), std::string::npos)
      << got.error().message;
  EXPECT_TRUE(server.seen().empty()) << "nothing was sent, above all no token";
}

TEST(Tls, RefusesAServerThatOnlyTheMachinesOwnAuthoritiesCouldVouchFor) {
  ScriptedApiServer server{empty_object};
  ClientConfig config = server.config();
  config.authorities = {};
  EXPECT_FALSE(get_with(config));
}

TEST(Tls, TrustsEachAuthorityOfABundle) {
  ScriptedApiServer server{empty_object};
  ClientConfig config = server.config();
  const std::string other = CertificateAuthority{"somebody else"}.pem();
  for (const std::string& bundle : {other + server.authority().pem(), server.authority().pem() + other}) {
    config.authorities = AuthoritySource::of_text(bundle);
    const auto got = get_with(config);
    EXPECT_TRUE(got) << got.error().message;
  }
}

TEST(Tls, SendsTheChainOfTheClientCertificate) {
  const CertificateAuthority authority{"a"};
  const auto own = authority.issue("operator");
  ClientConfig config;
  config.host = "127.0.0.1";
  config.certificate_pem = own.certificate_pem + authority.pem() + authority.pem();
  config.key_pem = own.key_pem;
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context{SSL_CTX_new(TLS_client_method()), &SSL_CTX_free};
  CertificateCheck check;
  ASSERT_TRUE(set_up_tls(context.get(), config, authority.pem(), check));
  STACK_OF(X509)* chain = nullptr;
  SSL_CTX_get0_chain_certs(context.get(), &chain);
  EXPECT_EQ(sk_X509_num(chain), 2);
}

TEST(Tls, SpeaksNoVersionBefore1_2) {
  ScriptedApiServer server{empty_object};
  const ClientConfig config = server.config();
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context{SSL_CTX_new(TLS_client_method()), &SSL_CTX_free};
  CertificateCheck check;
  ASSERT_TRUE(set_up_tls(context.get(), config, config.authorities.pem(), check));
  EXPECT_EQ(SSL_CTX_get_min_proto_version(context.get()), TLS1_2_VERSION);
}

TEST(Tls, RefusesACertificateForAnotherName) {
  for (const auto& [certified, host, sentence] : {std::tuple{"IP:127.0.0.9", "127.0.0.1", "IP address mismatch"},
                                                  std::tuple{"DNS:elsewhere", "localhost", "hostname mismatch"},
                                                  std::tuple{"DNS:localhost", "127.0.0.1", "IP address mismatch"}}) {
    ScriptedApiServer server{empty_object, {.server_name = certified}};
    ClientConfig config = server.config();
    config.host = host;
    const auto got = get_with(config);
    ASSERT_FALSE(got) << certified;
    EXPECT_NE(got.error().message.find(sentence), std::string::npos) << got.error().message;
  }
}

TEST(Tls, AcceptsNamesAndAddresses) {
  for (const auto& [certified, host] :
       {std::pair{"IP:127.0.0.1", "127.0.0.1"}, std::pair{"DNS:localhost", "localhost"}}) {
    ScriptedApiServer server{empty_object, {.server_name = certified}};
    ClientConfig config = server.config();
    config.host = host;
    const auto got = get_with(config);
    EXPECT_TRUE(got) << got.error().message;
  }
}

TEST(Tls, ShowsTheClientCertificate) {
  ScriptedApiServer server{empty_object, {.is_asking_for_client_certificate = true}};
  ClientConfig config = server.config();
  config.token = {};
  const auto own = server.authority().issue("operator");
  config.certificate_pem = own.certificate_pem;
  config.key_pem = own.key_pem;
  const auto got = get_with(config);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(server.seen().at(0).client_name, "operator");
  EXPECT_EQ(server.seen().at(0).authorization, "");
}

TEST(Tls, FailsClearlyWithoutTheClientCertificateThatTheServerWants) {
  ScriptedApiServer server{empty_object, {.is_asking_for_client_certificate = true}};
  const auto got = get_with(server.config());
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::unavailable);
}

TEST(Tls, SaysWhichTextIsNoCertificateOrKey) {
  const CertificateAuthority authority{"a"};
  const auto own = authority.issue("operator");
  const auto other = authority.issue("other");
  struct Row {
    std::string ca, certificate, key;
    const char* sentence;
  };
  for (const Row& row : {Row{"x", "", "", "the API server's CA is not a PEM certificate"},
                         Row{authority.pem(), "x", own.key_pem, "the client certificate cannot be used"},
                         Row{authority.pem(), own.certificate_pem, "x", "the client key cannot be used"},
                         Row{authority.pem(), own.certificate_pem, other.key_pem, "the client key cannot be used"}}) {
    ClientConfig config;
    config.host = "127.0.0.1";
    config.authorities = AuthoritySource::of_text(row.ca);
    config.certificate_pem = row.certificate;
    config.key_pem = row.key;
    const auto api = HttpApi::make(config);
    ASSERT_FALSE(api) << row.sentence;
    EXPECT_EQ(api.error().kind, ErrorKind::invalid);
    EXPECT_NE(api.error().message.find(row.sentence), std::string::npos) << api.error().message;
  }
}

}  // namespace
}  // namespace trainyard::kube
