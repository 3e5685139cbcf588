#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "storage/s3_store.hpp"
#include "tests/fakes/certificate_authority.hpp"
#include "tests/fakes/set_variable.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/s3_fixture.hpp"

namespace trainyard::storage {
namespace {

using testing::HasSubstr;

/// A server whose certificate was issued by the test's own authority.
class AnS3StoreOverTls : public S3Fixture {
 protected:
  void SetUp() override {
    S3Fixture::SetUp();
    if (IsSkipped() || HasFailure()) return;
    const fakes::Certificate certificate = authority.issue("s3", "IP:127.0.0.1");
    write("ca.pem", authority.pem());
    write("cert.pem", certificate.certificate_pem);
    write("key.pem", certificate.key_pem);
    tls_server = Versitygw::start({"--cert", folder.path() + "/cert.pem", "--key", folder.path() + "/key.pem"});
    ASSERT_TRUE(tls_server);
    tls_server->make_bucket(bucket);
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream{folder.path() + "/" + name} << text;
  }

  [[nodiscard]] S3Store open_trusting(const std::string& ca_bundle) const {
    S3Config config = config_at(tls_server->port());
    config.scheme = "https";
    S3Tuning trusting = tuning;
    trusting.http.ca_bundle = ca_bundle;
    return {config, trusting};
  }

  fakes::TemporaryFolder folder;
  fakes::CertificateAuthority authority{"test"};
  std::unique_ptr<Versitygw> tls_server;
};

TEST_F(AnS3StoreOverTls, TrustsTheAuthorityItIsGiven) {
  S3Store store = open_trusting(folder.path() + "/ca.pem");
  const auto put = put_text(store, "a", "x");
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(get_text(store, "a"), "x");
}

TEST_F(AnS3StoreOverTls, TrustsTheAuthorityThatTheEnvironmentNames) {
  const fakes::SetVariable bundle{"AWS_CA_BUNDLE", folder.path() + "/ca.pem"};
  const fakes::SetVariable id{"AWS_ACCESS_KEY_ID", Versitygw::access_key_id};
  const fakes::SetVariable secret{"AWS_SECRET_ACCESS_KEY", Versitygw::secret_access_key};
  const auto store =
      open_store("s3://" + bucket + "/run", {.endpoint = fmt::format("https://127.0.0.1:{}", tls_server->port())});
  ASSERT_TRUE(store) << store.error().message;
  const auto put = put_text(**store, "a", "x");
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(get_text(**store, "a"), "x");
}

TEST_F(AnS3StoreOverTls, RefusesAnUnknownAuthorityAtOnceAndSaysWhatToDo) {
  write("other.pem", fakes::CertificateAuthority{"other"}.pem());
  for (const char* file : {"other.pem", "missing.pem"}) {
    S3Store store = open_trusting(folder.path() + "/" + file);
    const auto probed = store.probe();
    ASSERT_FALSE(probed) << file;
    EXPECT_EQ(probed.error().kind, ErrorKind::invalid) << probed.error().message;
    EXPECT_THAT(probed.error().message, HasSubstr("AWS_CA_BUNDLE"));
  }
}

}  // namespace
}  // namespace trainyard::storage
