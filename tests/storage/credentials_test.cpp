#include "storage/credentials.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/fakes/fake_clock.hpp"

namespace trainyard::storage {
namespace {

using namespace std::chrono_literals;

/// An issuer that gives "token-1", "token-2", ..., each valid for `lifetime`, unless a test makes it fail.
class AccessTokensTest : public testing::Test {
 protected:
  std::shared_ptr<fakes::FakeClock> clock = std::make_shared<fakes::FakeClock>();
  std::optional<Error> failure;
  std::chrono::seconds lifetime = 1h;
  int fetches = 0;
  AccessTokens tokens{[this]() -> Result<AccessToken> {
                        ++fetches;
                        if (failure) return tl::unexpected(*failure);
                        return AccessToken{.text = "token-" + std::to_string(fetches),
                                           .expiry = clock->now() + lifetime};
                      },
                      clock};
};

TEST_F(AccessTokensTest, AreAskedForOnceAndRenewedBeforeTheyExpire) {
  EXPECT_EQ(tokens.get(), "token-1");
  clock->advance(54min);
  EXPECT_EQ(tokens.get(), "token-1");
  clock->advance(2min);
  EXPECT_EQ(tokens.get(), "token-2");
  EXPECT_EQ(tokens.recent(), (std::array<std::string, 2>{"token-2", "token-1"}));
}

TEST_F(AccessTokensTest, ThatLiveForMinutesAreNotAskedForAtEachRequest) {
  lifetime = 2min;
  EXPECT_EQ(tokens.get(), "token-1");
  clock->advance(29s);
  EXPECT_EQ(tokens.get(), "token-1");
  clock->advance(1s);
  EXPECT_EQ(tokens.get(), "token-2");
}

TEST_F(AccessTokensTest, AreNotSentFromTheirExpiryOn) {
  ASSERT_EQ(tokens.get(), "token-1");
  failure = Error{ErrorKind::unavailable, "down", {}};
  clock->advance(1h - 1ms);
  EXPECT_EQ(tokens.get(), "token-1");
  clock->advance(1ms);
  EXPECT_EQ(tokens.get().error(), *failure);
}

TEST_F(AccessTokensTest, StayInUseWhileRenewalFailsAndTheyAreValid) {
  ASSERT_TRUE(tokens.get());
  failure = Error{ErrorKind::unavailable, "down", {}};
  clock->advance(56min);
  EXPECT_EQ(tokens.get(), "token-1");
  EXPECT_EQ(tokens.get(), "token-1");
  EXPECT_EQ(fetches, 2) << "an issuer that fails is not asked at every request";
  clock->advance(5min);
  EXPECT_EQ(tokens.get().error(), *failure);
  failure.reset();
  EXPECT_EQ(tokens.get(), "token-4");
}

TEST_F(AccessTokensTest, ThatAreNotRenewedAreLoggedOnceUntilTheyAre) {
  const auto log_after = [&](std::chrono::minutes time, bool succeeds) {
    failure = succeeds ? std::nullopt : std::optional{Error{ErrorKind::unavailable, "the issuer is down", {}}};
    clock->advance(time);
    testing::internal::CaptureStderr();
    EXPECT_TRUE(tokens.get());
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(log_after(0min, true), "");
  EXPECT_NE(log_after(56min, false).find("the issuer is down"), std::string::npos);
  EXPECT_EQ(log_after(1min, false), "");
  EXPECT_EQ(log_after(1min, true), "");
  EXPECT_NE(log_after(56min, false).find("the issuer is down"), std::string::npos);
}

TEST_F(AccessTokensTest, AreAskedForAgainWhenTheServerRefusesThem) {
  ASSERT_TRUE(tokens.get());
  tokens.refuse("another");
  EXPECT_EQ(tokens.get(), "token-1");
  tokens.refuse("token-1");
  EXPECT_EQ(tokens.get(), "token-2");
}

TEST_F(AccessTokensTest, KeepTransientErrorsTransientAndNeverSayNotFound) {
  for (const auto& [given, expected] :
       {std::pair{ErrorKind::timeout, ErrorKind::timeout}, std::pair{ErrorKind::throttled, ErrorKind::throttled},
        std::pair{ErrorKind::unauthorized, ErrorKind::unauthorized},
        std::pair{ErrorKind::not_found, ErrorKind::unauthorized}}) {
    failure = Error{given, "words", {}};
    EXPECT_EQ(tokens.get().error().kind, expected);
  }
}

TEST_F(AccessTokensTest, ThatAreGivenAgainLeaveTheFormerOneKnown) {
  std::string text = "one";
  AccessTokens repeated{[&]() -> Result<AccessToken> { return AccessToken{.text = text, .expiry = std::nullopt}; },
                        clock};
  ASSERT_EQ(repeated.get(), "one");
  for (const char* next : {"two", "two"}) {
    repeated.refuse(text);
    text = next;
    ASSERT_EQ(repeated.get(), "two");
  }
  EXPECT_EQ(repeated.recent(), (std::array<std::string, 2>{"two", "one"})) << "a late refusal may still name it";
}

TEST_F(AccessTokensTest, WithoutAnExpiryAreAskedForOnce) {
  int asked = 0;
  AccessTokens lasting{[&]() -> Result<AccessToken> {
                         ++asked;
                         return AccessToken{.text = "token", .expiry = std::nullopt};
                       },
                       clock};
  ASSERT_EQ(lasting.get(), "token");
  clock->advance(24h * 365);
  EXPECT_EQ(lasting.get(), "token");
  EXPECT_EQ(asked, 1);
}

/// A clock that counts how often it is asked: get() asks it before it waits.
class CountingClock final : public Clock {
 public:
  [[nodiscard]] Time now() const override {
    ++count;
    return {};
  }
  [[nodiscard]] Instant instant() const override { return {}; }
  mutable std::atomic<int> count = 0;
};

/// Two threads, of which the second asks while the issuer answers the first.
class TwoThreads {
 public:
  /// Lets both threads ask. Returns the result of the second; `first` is then that of the first, if the issuer has not
  /// thrown.
  Result<std::string> second_of_get() {
    ask_from_second_ = true;
    try {
      first = tokens_.get();
    } catch (const std::runtime_error&) {
      first = {};
    }
    return second_.get();
  }

  std::atomic<int> fetches = 0;
  std::atomic<bool> throws_once = false;
  std::vector<Result<AccessToken>> answers;
  Result<std::string> first;

 private:
  Result<AccessToken> answer() {
    const auto number = static_cast<std::size_t>(fetches++);
    if (ask_from_second_.exchange(false)) {
      const int asked = clock_->count;
      second_ = std::async(std::launch::async, [this] { return tokens_.get(); });
      while (clock_->count == asked) std::this_thread::yield();
    }
    if (throws_once.exchange(false)) throw std::runtime_error{"no memory"};
    if (number < answers.size()) return answers[number];
    return fail(ErrorKind::internal, "asked too often");
  }

  std::shared_ptr<CountingClock> clock_ = std::make_shared<CountingClock>();
  std::atomic<bool> ask_from_second_ = false;
  std::future<Result<std::string>> second_;
  AccessTokens tokens_{[this] { return answer(); }, clock_};
};

TEST(AccessTokens, ThatOneThreadFetchesAreTakenByAnotherThatWaits) {
  TwoThreads threads;
  threads.answers = {AccessToken{.text = "token", .expiry = {}}};
  EXPECT_EQ(threads.second_of_get(), "token");
  EXPECT_EQ(threads.first, "token");
  EXPECT_EQ(threads.fetches, 1);
}

TEST(AccessTokens, ThatOneThreadDoesNotGetAreNotFetchedAgainByAnotherThatWaits) {
  TwoThreads threads;
  threads.answers = {fail(ErrorKind::unavailable, "down"), AccessToken{.text = "token", .expiry = {}}};
  EXPECT_EQ(threads.second_of_get().error().message, "down");
  EXPECT_EQ(threads.first.error().message, "down");
  EXPECT_EQ(threads.fetches, 1);
  EXPECT_EQ(threads.second_of_get(), "token") << "the error was that of an earlier answer";
  EXPECT_EQ(threads.fetches, 2);
}

TEST(AccessTokens, CanBeFetchedAfterAnExceptionOfTheIssuer) {
  bool fails = true;
  AccessTokens tokens{[&]() -> Result<AccessToken> {
    if (std::exchange(fails, false)) throw std::runtime_error{"no memory"};
    return AccessToken{.text = "token", .expiry = std::nullopt};
  }};
  EXPECT_THROW(std::ignore = tokens.get(), std::runtime_error);
  EXPECT_EQ(tokens.get(), "token");
}

TEST(AccessTokens, AreFetchedByAThreadThatWaitsAfterAnExceptionInAnother) {
  TwoThreads threads;
  threads.throws_once = true;
  const AccessToken token{.text = "token", .expiry = {}};
  threads.answers = {token, token};
  EXPECT_EQ(threads.second_of_get(), "token");
  EXPECT_EQ(threads.fetches, 2);
}

TEST(AccessTokens, AreFetchedByOneThreadForAllThatWait) {
  std::atomic<int> fetches = 0;
  AccessTokens tokens{[&]() -> Result<AccessToken> {
    ++fetches;
    return AccessToken{.text = "token", .expiry = std::nullopt};
  }};
  std::vector<std::string> got(8);
  {
    std::vector<std::jthread> threads;
    for (std::string& one : got) threads.emplace_back([&] { one = tokens.get().value_or(""); });
  }
  EXPECT_EQ(fetches, 1);
  EXPECT_EQ(got, std::vector<std::string>(8, "token"));
}

}  // namespace
}  // namespace trainyard::storage
