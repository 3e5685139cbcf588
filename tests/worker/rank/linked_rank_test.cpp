// A rank's link, with the test in the launcher's place.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/file_descriptor.hpp"
#include "worker/rank/environment.hpp"
#include "worker/rank/rank_link.hpp"
#include "worker/rank/rank_message.hpp"

namespace trainyard::rank {
namespace {

bool comes_true(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{60};
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

void name_link(int file) {
  setenv(std::string{env_rank_link}.c_str(), std::to_string(file).c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
}

class LinkedRankTest : public testing::Test {
 protected:
  LinkedRankTest() {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()), 0);
    launchers_ = FileDescriptor{ends[0]};
    ranks_ = ends[1];
    name_link(ranks_);
    link_ = open_rank_link();
  }
  ~LinkedRankTest() override { std::signal(SIGTERM, SIG_DFL); }

  void send(const std::string& packet) const {
    EXPECT_EQ(::send(launchers_.get(), packet.data(), packet.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(packet.size()));
  }
  /// The next message of the rank that does not only say that it lives.
  [[nodiscard]] RankMessage next_message() const {
    while (true) {
      std::string packet(rank_message_bytes_max, '\0');
      const ssize_t size = recv(launchers_.get(), packet.data(), packet.size(), 0);
      if (size <= 0) return Alive{};
      packet.resize(static_cast<std::size_t>(size));
      const auto message = decode_rank_message(packet);
      if (!message) return RankEnd{.reason = "malformed", .message = packet};
      if (!std::holds_alternative<Alive>(*message)) return *message;
    }
  }

  FileDescriptor launchers_;
  int ranks_ = -1;
  std::unique_ptr<RankLink> link_;
};

TEST_F(LinkedRankTest, SendsItsReportsAndKeepsTheLastRequest) {
  const RankProgress progress{.phase = "Training", .step = 7};
  link_->report(progress);
  EXPECT_EQ(next_message(), RankMessage{progress});
  EXPECT_EQ(link_->checkpoint_request(), std::nullopt);
  send("no message");  // As another version may send: it is skipped.
  send(encode(CheckpointRequest{.id = "a"}));
  send(encode(CheckpointRequest{.id = "b", .then = Then::exit}));
  EXPECT_TRUE(comes_true([&] { return link_->checkpoint_request() && link_->checkpoint_request()->id == "b"; }));
  EXPECT_EQ(link_->checkpoint_request(), (CheckpointRequest{.id = "b", .then = Then::exit}));
  EXPECT_EQ(link_->group_failure(), std::nullopt);
}

TEST_F(LinkedRankTest, KeepsTheFirstFailureOfTheGroup) {
  const RankEnd first{.exit_code = 90, .reason = "PeerLost", .message = "rank 3 is lost", .culprit = 3};
  send(encode(first));
  send(encode(RankEnd{.exit_code = 90, .reason = "PeerLost", .message = "rank 4 is lost", .culprit = 4}));
  send(encode(CheckpointRequest{.id = "after both"}));
  ASSERT_TRUE(comes_true([&] { return link_->checkpoint_request().has_value(); }));
  EXPECT_EQ(link_->group_failure(), first);
  launchers_.reset();
  EXPECT_EQ(link_->group_failure(), first);
}

TEST_F(LinkedRankTest, LeavesItsChildrenNeitherTheLinkNorItsName) {
  EXPECT_NE(fcntl(ranks_, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(exact_variable(env_rank_link), std::nullopt);
}

TEST_F(LinkedRankTest, IsAskedToStopBySigterm) {
  EXPECT_FALSE(link_->is_stop_requested());
  std::raise(SIGTERM);
  EXPECT_TRUE(link_->is_stop_requested());
}

TEST(OpenRankLink, LeavesAFileAloneThatIsNoLink) {
  std::array<int, 2> stream{-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream.data()), 0);
  const FileDescriptor other{stream[0]};
  const FileDescriptor own{stream[1]};
  std::array<int, 2> pipe_ends{-1, -1};
  ASSERT_EQ(pipe2(pipe_ends.data(), O_CLOEXEC), 0);
  const FileDescriptor read_end{pipe_ends[0]};
  const FileDescriptor write_end{pipe_ends[1]};
  for (const int file : {own.get(), write_end.get()}) {
    name_link(file);
    {
      const auto link = open_rank_link();
      link->report({.phase = "Training"});
      link->beat();
      EXPECT_EQ(link->group_failure(), std::nullopt);
      EXPECT_EQ(link->checkpoint_request(), std::nullopt);
    }
    EXPECT_NE(fcntl(file, F_GETFD), -1) << "it was closed";
  }
  char byte = 0;
  EXPECT_LT(recv(other.get(), &byte, 1, MSG_DONTWAIT), 0) << "something was written to it";
  unsetenv(std::string{env_rank_link}.c_str());  // NOLINT(concurrency-mt-unsafe)
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace
}  // namespace trainyard::rank
