#include "operator/kube/service_account.hpp"

#include <gtest/gtest.h>

#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::kube {
namespace {

TEST(LoadServiceAccount, ReadsTheMountOfAPod) {
  const fakes::TemporaryFolder folder;
  folder.write("ca.crt", "ca");
  folder.write("token", "t");
  folder.write("namespace", "trainyard-system");
  for (const auto& [host, port] : {std::pair{"10.96.0.1", "443"}, std::pair{"fd00::1", "6443"}}) {
    const auto config = load_service_account({.folder = folder.path(), .host = host, .port = port});
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->host, host);
    EXPECT_EQ(config->port, std::stoi(port));
    EXPECT_EQ(config->authorities.pem(), "ca");
    EXPECT_EQ(config->token.token(), "t");
    EXPECT_EQ(config->name_space, "trainyard-system");
  }
}

TEST(LoadServiceAccount, SaysThatThisIsNoPod) {
  const auto config = load_service_account({.folder = "/", .host = "", .port = ""});
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().kind, ErrorKind::not_found);
}

TEST(LoadServiceAccount, NamesTheFileThatTheMountLacks) {
  for (const char* missing : {"ca.crt", "token", "namespace"}) {
    const fakes::TemporaryFolder folder;
    for (const char* name : {"ca.crt", "token", "namespace"}) {
      if (std::string_view{name} != missing) folder.write(name, "x");
    }
    const auto config = load_service_account({.folder = folder.path(), .host = "10.96.0.1", .port = "443"});
    ASSERT_FALSE(config) << missing;
    EXPECT_NE(config.error().message.find(folder.file(missing).string()), std::string::npos) << config.error().message;
  }
}

}  // namespace
}  // namespace trainyard::kube
