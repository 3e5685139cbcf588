#include "operator/kube/authorities.hpp"

#include <gtest/gtest.h>
#include <httplib.h>

#include "operator/kube/http_api.hpp"
#include "tests/fakes/scripted_api_server.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::kube {
namespace {

using fakes::CertificateAuthority;
using fakes::ScriptedApiServer;

/// Each request needs a connection of its own.
const ScriptedApiServer::Answer answer_and_close = [](const auto&, auto& response) {
  response.set_header("Connection", "close");
  fakes::answer_json(response, "{}");
};

TEST(AuthoritySource, IsTheMachinesOwnOrAFixedText) {
  EXPECT_EQ(AuthoritySource{}.pem(), "");
  EXPECT_EQ(AuthoritySource::of_text("pem").pem(), "pem");
}

TEST(AuthoritySource, GivesWhatItsFileHoldsNow) {
  const fakes::TemporaryFolder folder;
  const std::string first = CertificateAuthority{"first"}.pem();
  const std::string second = CertificateAuthority{"second"}.pem();
  const auto source = AuthoritySource::of_file(folder.write("ca.crt", first));
  ASSERT_TRUE(source) << source.error().message;
  const AuthoritySource copy = *source;
  EXPECT_EQ(source->pem(), first);
  folder.write("ca.crt", first + second);
  EXPECT_EQ(source->pem(), first + second);
  EXPECT_EQ(copy.pem(), first + second);
}

TEST(AuthoritySource, KeepsTheLastThatCouldBeUsed) {
  const fakes::TemporaryFolder folder;
  const std::string good = CertificateAuthority{"good"}.pem();
  const auto source = AuthoritySource::of_file(folder.write("ca.crt", good));
  ASSERT_TRUE(source);
  for (const std::string bad : {"", "no certificate", "-----BEGIN CERTIFICATE-----\ntorn"}) {
    folder.write("ca.crt", bad);
    EXPECT_EQ(source->pem(), good) << bad;
  }
  std::filesystem::remove(folder.file("ca.crt"));
  EXPECT_EQ(source->pem(), good) << "a file that is gone";
}

TEST(AuthoritySource, SaysWhichFileCannotBeRead) {
  const auto source = AuthoritySource::of_file("/nowhere/ca.crt");
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().kind, ErrorKind::io);
  EXPECT_NE(source.error().message.find("/nowhere/ca.crt"), std::string::npos) << source.error().message;
}

TEST(Connection, BelievesARenewedAuthorityFromTheNextHandshakeOn) {
  ScriptedApiServer server{answer_and_close};
  const fakes::TemporaryFolder folder;
  ClientConfig config = server.config();
  config.authorities = *AuthoritySource::of_file(folder.write("ca.crt", CertificateAuthority{"old"}.pem()));
  const auto api = HttpApi::make(config);
  ASSERT_TRUE(api) << api.error().message;
  EXPECT_FALSE((*api)->get(pods, "a", "b"));
  folder.write("ca.crt", server.authority().pem());
  const auto got = (*api)->get(pods, "a", "b");
  EXPECT_TRUE(got) << got.error().message;
  folder.write("ca.crt", "torn");
  EXPECT_TRUE((*api)->get(pods, "a", "b")) << "the last good one still vouches for the server";
  folder.write("ca.crt", CertificateAuthority{"new"}.pem());
  EXPECT_FALSE((*api)->get(pods, "a", "b")) << "an authority that was taken away vouches for nothing";
}

TEST(Connection, BelievesARenewedAuthorityInAWatchToo) {
  ScriptedApiServer server{answer_and_close};
  const fakes::TemporaryFolder folder;
  ClientConfig config = server.config();
  config.authorities = *AuthoritySource::of_file(folder.write("ca.crt", CertificateAuthority{"old"}.pem()));
  const auto connection = Connection::make(config);
  ASSERT_TRUE(connection) << connection.error().message;
  const auto stream = [&] {
    return (*connection)
        ->stream({"GET", "/", {}, {}}, std::chrono::seconds{60}, [](std::string_view) { return true; }, {});
  };
  EXPECT_FALSE(stream());
  folder.write("ca.crt", server.authority().pem());
  const auto streamed = stream();
  EXPECT_TRUE(streamed) << streamed.error().message;
}

}  // namespace
}  // namespace trainyard::kube
