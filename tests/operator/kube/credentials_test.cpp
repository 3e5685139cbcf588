#include "operator/kube/credentials.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::kube {
namespace {

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
                          "https://host:port", "https://host:0", "https://host:70000", "https://[fd00::1"}) {
    ClientConfig config;
    const auto set = set_server(config, url);
    ASSERT_FALSE(set) << url;
    EXPECT_EQ(set.error().kind, ErrorKind::invalid);
  }
}

}  // namespace
}  // namespace trainyard::kube
