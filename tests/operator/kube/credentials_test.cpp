#include <gtest/gtest.h>
#include <httplib.h>

#include <fstream>

#include "operator/kube/credentials.hpp"
#include "operator/kube/http_api.hpp"
#include "tests/fakes/redirection.hpp"
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

TEST(AuthoritySource, WarnsOnceOfEachReasonForWhichItCannotBeRenewed) {
  const fakes::TemporaryFolder folder;
  const std::string good = CertificateAuthority{"good"}.pem();
  const auto source = AuthoritySource::of_file(folder.write("ca.crt", good));
  ASSERT_TRUE(source);
  const auto log = folder.write("log", "");
  {
    const fakes::Redirection error{STDERR_FILENO, log, O_WRONLY};
    for (int turn = 0; turn < 3; ++turn) {
      folder.write("ca.crt", "torn");
      EXPECT_EQ(source->pem(), good);
      EXPECT_EQ(source->pem(), good);
      folder.write("ca.crt", good + good);
      EXPECT_EQ(source->pem(), good + good);
      folder.write("ca.crt", good);
      EXPECT_EQ(source->pem(), good);
    }
  }
  const std::string words = fakes::text_of(log);
  std::size_t warnings = 0;
  for (auto at = words.find("cannot be renewed"); at != std::string::npos; at = words.find("cannot be renewed", at + 1))
    ++warnings;
  EXPECT_EQ(warnings, 3U) << words;
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

TEST(TokenSource, ReadsARenewedFileAtOnce) {
  const fakes::TemporaryFolder folder;
  const auto file = folder.write("token", "first\n");
  const TokenSource source = TokenSource::of_file(file);
  EXPECT_EQ(source.token(), "first");
  folder.write("token", "second");
  EXPECT_EQ(source.token(), "second");
  folder.write("token", "third \r\n\n");
  EXPECT_EQ(source.token(), "third") << "a line end in a header would be refused, or would begin another header";
}

TEST(TokenSource, SaysWhichFileIsMissingOrEmpty) {
  const fakes::TemporaryFolder folder;
  const auto missing = TokenSource::of_file(folder.file("none")).token();
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::unauthorized);
  EXPECT_NE(missing.error().message.find(folder.file("none").string()), std::string::npos) << missing.error().message;
  EXPECT_FALSE(TokenSource::of_file(folder.write("empty", "\n")).token());
}

TEST(TokenSource, IsEmptyWithoutAToken) {
  EXPECT_EQ(TokenSource{}.token(), "");
}

TEST(TokenSource, HasNoOtherTokenForARefusedOneUnlessAPluginGivesIt) {
  EXPECT_FALSE(TokenSource{}.refuse(""));
  EXPECT_FALSE(TokenSource::of_text("t").refuse("t"));
  EXPECT_FALSE(TokenSource::of_file("token").refuse("t"));
}

TEST(SetServer, TakesHostPortAndPrefixApart) {
  struct Row {
    const char* url;
    const char* host;
    int port;
    const char* prefix;
  };
  for (const Row& row :
       {Row{"https://10.0.0.1:6443", "10.0.0.1", 6443, ""}, Row{"https://k8s.example.com", "k8s.example.com", 443, ""},
        Row{"https://[fd00::1]:6443/", "fd00::1", 6443, ""}, Row{"https://[fd00::1]", "fd00::1", 443, ""},
        Row{"https://[fd00::1]/k8s", "fd00::1", 443, "/k8s"}, Row{"https://host:65535", "host", 65535, ""},
        Row{"https://host:1//", "host", 1, ""},
        Row{"https://proxy/k8s/clusters/c-1/", "proxy", 443, "/k8s/clusters/c-1"}}) {
    ClientConfig config;
    ASSERT_TRUE(set_server(config, row.url)) << row.url;
    EXPECT_EQ(config.host, row.host);
    EXPECT_EQ(config.port, row.port);
    EXPECT_EQ(config.path_prefix, row.prefix);
  }
}

TEST(SetServer, RefusesWhatIsNoHttpsAddress) {
  for (const char* url : {"", "http://127.0.0.1:8001", "10.0.0.1:6443", "https://", "https://:6443",
                          "https://host:port", "https://host:0", "https://host:70000", "https://host:65536",
                          "https://host:", "https://host:6443x", "https://fd00::1", "https://[fd00::1",
                          "https://[fd00::1]x6443", "https://[fd00::1]6443", "https://[fd00::1]:", "https://[]:6443"}) {
    ClientConfig config;
    const auto set = set_server(config, url);
    ASSERT_FALSE(set) << url;
    EXPECT_EQ(set.error().kind, ErrorKind::invalid);
  }
}

}  // namespace
}  // namespace trainyard::kube
