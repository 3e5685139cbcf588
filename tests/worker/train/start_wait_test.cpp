#include "worker/train/start_wait.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "api/contract.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/worker/fakes/fake_rank_link.hpp"

namespace trainyard::train {
namespace {

using namespace std::chrono_literals;

const Error refused{ErrorKind::forbidden, "look into s3://models: AccessDenied", std::nullopt};

TEST(StartBudgetOf, IsTwoMinutesOrWhatTheEnvironmentSays) {
  const auto of = [](const std::optional<std::string>& text) {
    return start_patience_of(
        [&](std::string_view name) { return name == "TRAINYARD_STORAGE_PATIENCE_SECONDS" ? text : std::nullopt; });
  };
  EXPECT_EQ(of(std::nullopt), 2min);
  EXPECT_EQ(of("0"), 0ms);
  EXPECT_EQ(of("600"), 10min);
  EXPECT_EQ(of("86400"), 24h);
  for (const std::string wrong : {"soon", "", "-1", "86401", "1.5", "60s"})
    EXPECT_EQ(of(wrong).error().kind, ErrorKind::invalid) << wrong;
}

TEST(StartPatience, SaysForWhatItWaits) {
  fakes::FakeRankLink link;
  const fakes::FakeClock clock;
  const checkpoint::StartPatience patience = start_patience(1min, link, clock);
  EXPECT_EQ(patience.duration, 1min);
  EXPECT_TRUE(patience.wait(0ms, refused));
  ASSERT_EQ(link.reports().size(), 1U);
  EXPECT_EQ(link.reports()[0].phase, "Loading");
  EXPECT_EQ(link.reports()[0].waiting_for, "another try of the start, after: look into s3://models: AccessDenied");
}

TEST(StartPatience, WaitsForNothingInAGroupThatIsBroken) {
  fakes::FakeRankLink link;
  const fakes::FakeClock clock;
  link.break_group({.exit_code = contract::exit_peer_lost, .reason = "PeerLost", .message = "rank 1", .culprit = 1});
  EXPECT_FALSE(start_patience(2h, link, clock).wait(1h, refused));
}

}  // namespace
}  // namespace trainyard::train
