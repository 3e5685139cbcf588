#include "worker/dist/gloo_communicator.hpp"

#include <gtest/gtest.h>

#include <latch>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/worker/fakes/fake_rank_link.hpp"
#include "tests/worker/fakes/threads_as_ranks.hpp"

namespace trainyard::dist {
namespace {

using fakes::FakeRankLink;
using namespace std::chrono_literals;
using Texts = std::vector<std::string>;

/// Runs `body` on a thread for each rank, with a communicator of its own.
template <typename Body>
void run_ranks(std::int64_t world_size, std::chrono::milliseconds deadline, const Body& body,
               UsedBy used_by = UsedBy::training_thread) {
  fakes::let_threads_be_ranks();
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::jthread> threads;
  for (std::int64_t rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([=, &body] {
      auto options = c10d::ProcessGroupGloo::Options::create();
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
      auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, static_cast<int>(rank),
                                                              static_cast<int>(world_size), std::move(options));
      FakeRankLink link;
      const auto communicator = make_gloo_communicator(std::move(gloo), deadline, link, used_by);
      body(*communicator, link);
    });
  }
}

TEST(GlooCommunicator, BroadcastsTheRootsTextOfAnyLength) {
  for (const std::string& text : {std::string{}, std::string{"step 12"}, std::string(100'000, '\0')}) {
    run_ranks(3, 1min, [&](checkpoint::Communicator& communicator, FakeRankLink& /*link*/) {
      for (const std::int64_t root : {0, 2}) {
        const auto heard =
            communicator.broadcast(communicator.rank() == root ? text : "not this one, which is longer", root);
        ASSERT_TRUE(heard) << heard.error().message;
        EXPECT_EQ(*heard, text);
      }
    });
  }
}

TEST(GlooCommunicator, GathersTextsOfUnequalLengthsInRankOrder) {
  run_ranks(3, 1min, [](checkpoint::Communicator& communicator, FakeRankLink& /*link*/) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const auto texts = communicator.all_gather(std::string(rank * 3, 'x'));
    ASSERT_TRUE(texts) << texts.error().message;
    EXPECT_EQ(*texts, (Texts{"", "xxx", "xxxxxx"}));
  });
}

TEST(GlooCommunicator, SpreadsTheBytesOfSeveralRootsInPartsOfAnySize) {
  constexpr std::size_t large = std::size_t{20} << 20;  // Many messages, more than are under way at a time.
  const std::vector<std::vector<std::size_t>> sizes{{large + 3, 0, 1}, {}, {5, large / 3}, {1, 1, 1}};
  const std::vector<std::int64_t> roots{2, 0, 0, 1};
  run_ranks(3, 1min, [&](checkpoint::Communicator& communicator, FakeRankLink& /*link*/) {
    std::vector<std::vector<std::string>> texts;
    std::vector<checkpoint::BroadcastPart> parts;
    const auto text_of = [](std::size_t part, std::size_t size) {
      std::string text(size, '\0');
      for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + (i * 7 + i / 1000 + part) % 26);
      return text;
    };
    for (std::size_t part = 0; part < sizes.size(); ++part) {
      auto& own = texts.emplace_back();
      for (const std::size_t size : sizes[part])
        own.push_back(communicator.rank() == roots[part] ? text_of(part, size) : std::string(size, '\0'));
      auto& spans = parts.emplace_back(checkpoint::BroadcastPart{.root = roots[part], .spans = {}}).spans;
      for (std::string& text : own) spans.push_back(std::as_writable_bytes(std::span{text}));
    }
    const auto sent = communicator.broadcast_parts(parts);
    ASSERT_TRUE(sent) << sent.error().message;
    for (std::size_t part = 0; part < sizes.size(); ++part) {
      for (std::size_t i = 0; i < sizes[part].size(); ++i)
        EXPECT_TRUE(texts[part][i] == text_of(part, sizes[part][i])) << "part " << part << ", span " << i;
    }
    EXPECT_TRUE(communicator.broadcast_parts({}));
  });
}

TEST(GlooCommunicator, SpreadsNothingMoreOnceTheGroupIsBroken) {
  std::latch is_over{1};
  run_ranks(2, 1min, [&](checkpoint::Communicator& communicator, FakeRankLink& link) {
    if (communicator.rank() == 1) return is_over.wait();  // It is there, and takes no part.
    link.break_group({.exit_code = 90, .reason = "PeerLost", .message = "rank 1 is lost", .culprit = 1});
    std::string text(std::size_t{20} << 20, 'x');
    const std::vector<checkpoint::BroadcastPart> parts{{.root = 1, .spans = {std::as_writable_bytes(std::span{text})}}};
    for (int call = 0; call < 2; ++call) {
      const auto sent = communicator.broadcast_parts(parts);
      EXPECT_FALSE(sent);
      if (sent) continue;
      EXPECT_EQ(sent.error().kind, ErrorKind::cancelled) << sent.error().message;
    }
    is_over.count_down();
  });
}

TEST(GlooCommunicator, EndsWithTheGroupAndStaysFailed) {
  std::latch is_over{1};
  run_ranks(2, 1min, [&](checkpoint::Communicator& communicator, FakeRankLink& link) {
    if (communicator.rank() == 1) return is_over.wait();  // It is there, and takes no part.
    link.break_group({.exit_code = 90, .reason = "PeerLost", .message = "rank 1 is lost", .culprit = 1});
    for (int call = 0; call < 2; ++call) {
      const auto texts = communicator.all_gather("here");
      EXPECT_FALSE(texts);
      if (texts) continue;
      EXPECT_EQ(texts.error().kind, ErrorKind::cancelled) << texts.error().message;
    }
    is_over.count_down();
  });
}

TEST(GlooCommunicator, BeginsNothingMoreAfterACollectiveThatFailed) {
  std::latch is_over{1};
  run_ranks(2, 100ms, [&](checkpoint::Communicator& communicator, FakeRankLink& link) {
    if (communicator.rank() == 1) return is_over.wait();  // It is there, and takes no part.
    const auto first = communicator.all_gather("here");
    const auto beats = link.beats();
    EXPECT_GT(beats, 0) << "it has waited for rank 1";
    const auto second = communicator.all_gather("here");
    EXPECT_EQ(link.beats(), beats) << "it waits for nobody any more";
    EXPECT_FALSE(first);
    EXPECT_FALSE(second);
    if (!first && !second) {
      EXPECT_EQ(second.error().message, first.error().message);
    }
    is_over.count_down();
  });
}

TEST(GlooCommunicator, IsASignOfLifeOnlyWhereTheTrainingThreadWaits) {
  for (const UsedBy used_by : {UsedBy::training_thread, UsedBy::background_thread}) {
    std::latch has_waited{1};
    run_ranks(
        2, 1min,
        [&](checkpoint::Communicator& communicator, FakeRankLink& link) {
          if (communicator.rank() == 1) return has_waited.wait();
          // The other rank never joins: this one waits, and checks the group's health, until the group breaks.
          std::jthread breaks{[&] {
            link.wait_for_looks(3);
            link.break_group({.exit_code = 90, .reason = "PeerLost", .message = "rank 1 is lost", .culprit = 1});
          }};
          EXPECT_FALSE(communicator.all_gather("here"));
          EXPECT_EQ(link.beats() > 0, used_by == UsedBy::training_thread);
          has_waited.count_down();
        },
        used_by);
  }
}

}  // namespace
}  // namespace trainyard::dist
