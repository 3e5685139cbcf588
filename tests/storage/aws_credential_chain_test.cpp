#include "storage/aws_credential_chain.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tests/fakes/fake_clock.hpp"

namespace trainyard::storage {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// A source that gives "id-1", "id-2" ... each valid for an hour, unless a test makes it fail.
class CredentialChainTest : public testing::Test {
 protected:
  AwsCredentialSource a_source(std::string name = "the source") {
    return {std::move(name), [this]() -> Result<Credentials> {
              ++asked;
              if (error) return tl::unexpected(*error);
              return Credentials{fmt::format("id-{}", asked.load()), "secret", "token", clock->now() + lifetime};
            }};
  }
  static AwsCredentialSource a_failing_source(std::string name, ErrorKind kind, bool is_a_guess = false) {
    return {name, [=]() -> Result<Credentials> { return fail(kind, "words of " + name); }, is_a_guess};
  }
  static std::string id_of(const Result<Credentials>& credentials) {
    return credentials ? credentials->access_key_id : credentials.error().message;
  }

  std::shared_ptr<fakes::FakeClock> clock = std::make_shared<fakes::FakeClock>();
  std::chrono::minutes lifetime{60};
  std::atomic<int> asked = 0;
  std::optional<Error> error;
};

TEST_F(CredentialChainTest, TakesTheFirstSourceThatHasSomeAndAsksItOnce) {
  AwsCredentialChain chain{
      {a_failing_source("none", ErrorKind::not_found), a_source(), a_failing_source("later", ErrorKind::invalid)},
      clock};
  EXPECT_EQ(chain.recent().front(), Credentials{});
  EXPECT_EQ(id_of(chain.get()), "id-1");
  clock->advance(54min);
  EXPECT_EQ(id_of(chain.get()), "id-1");
  EXPECT_EQ(chain.recent().front().access_key_id, "id-1");
}

TEST_F(CredentialChainTest, SaysOfEachSourceWhatItLacks) {
  AwsCredentialChain chain{
      {a_failing_source("one", ErrorKind::not_found), a_failing_source("two", ErrorKind::not_found),
       a_failing_source("guess", ErrorKind::unauthorized, true)},
      clock};
  const auto found = chain.get();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::unauthorized);
  EXPECT_THAT(found.error().message,
              HasSubstr("no AWS credentials were found. one: words of one; two: words of two; guess: words of guess."));
  EXPECT_THAT(found.error().message, HasSubstr("credentialsSecret"));
}

TEST_F(CredentialChainTest, GivesUpForGoodOnlyWhereNoWaitingHelps) {
  struct Row {
    ErrorKind of_guess;
    ErrorKind found;
  };
  for (const Row& row : {Row{ErrorKind::not_found, ErrorKind::unauthorized},
                         {ErrorKind::unauthorized, ErrorKind::unauthorized},
                         {ErrorKind::invalid, ErrorKind::unauthorized},
                         {ErrorKind::timeout, ErrorKind::unavailable},
                         {ErrorKind::throttled, ErrorKind::unavailable},
                         {ErrorKind::unavailable, ErrorKind::unavailable}}) {
    AwsCredentialChain chain{
        {a_failing_source("one", ErrorKind::not_found), a_failing_source("guess", row.of_guess, true)}, clock};
    const auto found = chain.get();
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().kind, row.found) << to_string(row.of_guess);
    EXPECT_THAT(found.error().message, HasSubstr("one: words of one; guess: words of guess"));
  }
}

TEST_F(CredentialChainTest, EndsAtASourceThatIsSetUpAndFails) {
  AwsCredentialChain chain{{a_failing_source("broken", ErrorKind::unavailable), a_source()}, clock};
  EXPECT_EQ(chain.get(), (Result<Credentials>{fail(ErrorKind::unavailable, "broken: words of broken")}));
  EXPECT_EQ(asked, 0);
}

TEST_F(CredentialChainTest, RenewsFiveMinutesBeforeTheExpiry) {
  AwsCredentialChain chain{{a_source()}, clock};
  ASSERT_TRUE(chain.get());
  clock->advance(55min - 1ms);
  EXPECT_EQ(id_of(chain.get()), "id-1");
  clock->advance(1ms);
  EXPECT_EQ(id_of(chain.get()), "id-2");
}

TEST_F(CredentialChainTest, AsksOnceForCredentialsWithoutAnExpiry) {
  int looks = 0;
  AwsCredentialChain chain{{{"the source",
                             [&]() -> Result<Credentials> {
                               ++looks;
                               return Credentials{"id", "secret", ""};
                             }}},
                           clock};
  ASSERT_TRUE(chain.get());
  clock->advance(24h * 365);
  EXPECT_EQ(id_of(chain.get()), "id");
  EXPECT_EQ(looks, 1);
}

TEST_F(CredentialChainTest, RemembersTheOnesBeforeTheLast) {
  AwsCredentialChain chain{{a_source()}, clock};
  EXPECT_EQ(chain.recent(), (std::array<Credentials, 2>{}));
  const Credentials first = chain.get().value();
  EXPECT_EQ(chain.recent(), (std::array<Credentials, 2>{first, Credentials{}}));
  chain.refuse(first);
  const Credentials second = chain.get().value();
  EXPECT_EQ(chain.recent(), (std::array<Credentials, 2>{second, first}));
}

TEST_F(CredentialChainTest, PassesOnHowLongTheSourceAsksToWait) {
  AwsCredentialChain chain{{a_source()}, clock};
  ASSERT_TRUE(chain.get());
  error = Error{ErrorKind::throttled, "busy", 7s};
  clock->advance(2h);
  EXPECT_EQ(chain.get().error(), (Error{ErrorKind::throttled, "the source: busy", 7s}));
}

TEST_F(CredentialChainTest, UsesTheOldOnesWhileTheyAreValidAndAsksNowAndThen) {
  AwsCredentialChain chain{{a_source()}, clock};
  ASSERT_TRUE(chain.get());
  error = Error{ErrorKind::unavailable, "away", {}};
  clock->advance(55min);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(id_of(chain.get()), "id-1");
  EXPECT_EQ(asked, 2);
  clock->advance(30s);
  EXPECT_EQ(id_of(chain.get()), "id-1");
  EXPECT_EQ(asked, 3);
  clock->advance(5min);
  EXPECT_EQ(chain.get(), (Result<Credentials>{fail(ErrorKind::unavailable, "the source: away")}));
  error.reset();
  EXPECT_EQ(id_of(chain.get()), "id-5");
}

TEST_F(CredentialChainTest, LogsOnceThatItsCredentialsAreNotRenewedUntilTheyAre) {
  AwsCredentialChain chain{{a_source()}, clock};
  const auto log_after = [&](std::chrono::minutes time, bool succeeds) {
    error = succeeds ? std::nullopt : std::optional{Error{ErrorKind::unavailable, "away", {}}};
    clock->advance(time);
    testing::internal::CaptureStderr();
    EXPECT_TRUE(chain.get());
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(log_after(0min, true), "");
  EXPECT_THAT(log_after(56min, false), HasSubstr("away"));
  EXPECT_EQ(log_after(1min, false), "");
  EXPECT_EQ(log_after(1min, true), "");
  EXPECT_THAT(log_after(56min, false), HasSubstr("away"));
}

TEST_F(CredentialChainTest, StaysWithItsSourceAndNeverSaysNotFound) {
  bool has_key_now = false;
  const AwsCredentialSource sooner{"sooner", [&]() -> Result<Credentials> {
                                     if (has_key_now) return Credentials{"other", "secret", ""};
                                     return fail(ErrorKind::not_found, "none");
                                   }};
  AwsCredentialChain chain{{sooner, a_source()}, clock};
  ASSERT_TRUE(chain.get());
  has_key_now = true;
  clock->advance(2h);
  EXPECT_EQ(id_of(chain.get()), "id-2");
  error = Error{ErrorKind::not_found, "gone", {}};
  clock->advance(2h);
  EXPECT_EQ(chain.get(), (Result<Credentials>{fail(ErrorKind::unauthorized, "the source: gone")}));
}

TEST_F(CredentialChainTest, GetsOthersWhenTheServerRefusesThem) {
  AwsCredentialChain chain{{a_source()}, clock};
  const Credentials first = chain.get().value();
  chain.refuse(first);
  EXPECT_EQ(id_of(chain.get()), "id-2");
  chain.refuse(first);  // Another thread, whose request was refused too, calls this.
  EXPECT_EQ(id_of(chain.get()), "id-2");
  chain.refuse(chain.recent().front());
  error = Error{ErrorKind::unavailable, "away", {}};
  EXPECT_FALSE(chain.get());
}

TEST_F(CredentialChainTest, UsesWhatASourceGivesEvenIfItIsExpiredAndDoesNotAskForEachRequest) {
  lifetime = std::chrono::minutes{-1};
  AwsCredentialChain chain{{a_source()}, clock};
  for (int i = 0; i < 10; ++i) EXPECT_EQ(id_of(chain.get()), "id-1");
  clock->advance(30s);
  EXPECT_EQ(id_of(chain.get()), "id-2");
}

TEST_F(CredentialChainTest, LetsOthersUseTheOldOnesWhileOneThreadAsks) {
  AwsCredentialChain* the_chain = nullptr;
  std::string meanwhile;
  AwsCredentialSource source = a_source();
  AwsCredentialChain chain{{{"the source",
                             [&]() -> Result<Credentials> {
                               if (asked == 1)
                                 meanwhile =
                                     id_of(std::async(std::launch::async, [&] { return the_chain->get(); }).get());
                               return source.get();
                             }}},
                           clock};
  the_chain = &chain;
  ASSERT_TRUE(chain.get());
  clock->advance(56min);
  EXPECT_EQ(id_of(chain.get()), "id-2");
  EXPECT_EQ(meanwhile, "id-1");
  EXPECT_EQ(asked, 2);
}

TEST_F(CredentialChainTest, AsksOnceForManyThreads) {
  AwsCredentialChain chain{{a_source()}, clock};
  std::vector<std::string> ids(8);
  {
    std::vector<std::jthread> threads;
    for (std::string& id : ids) threads.emplace_back([&] { id = id_of(chain.get()); });
  }
  EXPECT_EQ(ids, std::vector<std::string>(8, "id-1"));
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace trainyard::storage
