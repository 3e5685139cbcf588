// Credentials that expire and a clock that is wrong, with a real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "storage/s3_store.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/fault_proxy.hpp"
#include "tests/storage/s3_faults.hpp"
#include "tests/storage/s3_fixture.hpp"
#include "tests/storage/store_contract.hpp"

namespace trainyard::storage {
namespace {

using testing::HasSubstr;

bool is_of_the_first(const ProxiedRequest& request) {
  return request.head.find(fmt::format("Credential={}/", Versitygw::access_key_id)) != std::string::npos;
}

/// Stores whose first credentials are one user's, and all later ones another user's, since versitygw accepts no session
/// tokens.
class AnS3StoreWithSessions : public S3Fixture {
 protected:
  S3Store open_with_sessions(std::uint16_t port) {
    S3Config config = config_at(port);
    config.credentials = std::make_shared<AwsCredentialChain>(std::vector<AwsCredentialSource>{
        {"the test", [this]() -> Result<Credentials> {
           if (++sessions == 1) return Credentials{Versitygw::access_key_id, Versitygw::secret_access_key, ""};
           return Credentials{Versitygw::other_key_id, Versitygw::other_secret, ""};
         }}});
    return {config, tuning};
  }
  std::atomic<int> sessions = 0;
};

TEST_F(AnS3StoreWithSessions, ContinuesWithNewCredentialsWhenTheOldOnesExpireInMidUpload) {
  const std::vector<std::byte> content = contract::some_bytes((std::size_t{21} << 20) + 1);
  const std::span<const std::byte> piece{content};
  for (const int status : {400, 403}) {
    sessions = 0;
    int old_parts = 0;
    int new_parts = 0;
    FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                       const bool is_part = request.target.find("partNumber=") != std::string::npos;
                       if (!is_of_the_first(request)) {
                         new_parts += is_part ? 1 : 0;
                         return Fault{};
                       }
                       if (old_parts == 2) return refuse(status, "ExpiredToken");
                       old_parts += is_part ? 1 : 0;
                       return Fault{};
                     }};
    S3Store store = open_with_sessions(proxy.port());
    const auto put = static_cast<Store&>(store).put("large", {&piece, 1});
    ASSERT_TRUE(put) << put.error().message;
    EXPECT_EQ(sessions, 2);
    EXPECT_EQ(old_parts, 2);
    EXPECT_EQ(new_parts, 3);
    EXPECT_EQ(store.get("large"), content);
    EXPECT_EQ(unfinished_uploads(), "");
  }
}

TEST_F(AnS3StoreWithSessions, AsksForNewCredentialsOnceOnly) {
  FaultProxy proxy{server().port(), [](const ProxiedRequest&) { return refuse(403, "ExpiredToken"); }};
  S3Store store = open_with_sessions(proxy.port());
  const auto put = put_text(store, "a", "x");
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::unauthorized);
  EXPECT_THAT(put.error().message, HasSubstr("ExpiredToken"));
  EXPECT_EQ(proxy.request_count(), 2);
  EXPECT_EQ(sessions, 2);
}

TEST_F(AnS3StoreWithSessions, SaysWhatIsToBeDoneWhenThereAreNoCredentials) {
  S3Config config = config_at(server().port());
  config.credentials = std::make_shared<AwsCredentialChain>(std::vector<AwsCredentialSource>{
      {"the test", []() -> Result<Credentials> { return fail(ErrorKind::not_found, "none is set"); }}});
  S3Store store{config, tuning};
  const auto probed = store.probe();
  ASSERT_FALSE(probed);
  EXPECT_EQ(probed.error().kind, ErrorKind::unauthorized);
  EXPECT_THAT(probed.error().message, HasSubstr("look into s3://"));
  EXPECT_THAT(probed.error().message, HasSubstr("no AWS credentials were found. the test: none is set"));
}

TEST_F(AnS3StoreWithSessions, TriesAgainWhileASourceOfCredentialsFails) {
  int asked = 0;
  S3Config config = config_at(server().port());
  config.credentials = std::make_shared<AwsCredentialChain>(std::vector<AwsCredentialSource>{
      {"the test", [&]() -> Result<Credentials> {
         if (++asked < 3) return fail(ErrorKind::unavailable, "away");
         return Credentials{Versitygw::access_key_id, Versitygw::secret_access_key, ""};
       }}});
  S3Store store{config, tuning};
  const auto put = put_text(store, "a", "x");
  EXPECT_TRUE(put) << put.error().message;
  EXPECT_EQ(asked, 3);
}

TEST_F(AnS3StoreWithSessions, SignsWithTheServersTimeWhenItsOwnIsWrong) {
  const auto clock = std::make_shared<fakes::FakeClock>();  // Years behind, or ahead.
  S3Config config = config_at(server().port());
  config.clock = clock;
  S3Store store{config, tuning};
  const auto put = put_text(store, "a", "x");
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(get_text(store, "a"), "x");
  // Setting the clock right makes the correction wrong, so it must be learned again.
  clock->advance(std::chrono::hours{24});
  const auto later = put_text(store, "b", "x");
  EXPECT_TRUE(later) << later.error().message;
}

TEST_F(AnS3StoreWithSessions, SaysThatTheClockIsWrongWhenTheServerDoesNotSayTheTime) {
  FaultProxy proxy{server().port(), [](const ProxiedRequest&) { return refuse(403, "RequestTimeTooSkewed"); }};
  tuning.http.first_patience = std::chrono::milliseconds{50};
  const auto put = put_text(*open(proxy.port()), "a", "x");
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(put.error().message, HasSubstr("Set this machine's clock"));
}

}  // namespace
}  // namespace trainyard::storage
