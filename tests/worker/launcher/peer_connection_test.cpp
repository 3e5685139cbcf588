#include "worker/launcher/peer_connection.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "tests/worker/launcher/a_group.hpp"

namespace trainyard::launcher {
namespace {

using Messages = std::vector<PeerMessage>;

class PeerConnectionTest : public testing::Test {
 protected:
  PeerConnectionTest() {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    connection_.emplace(FileDescriptor{ends[0]});
    peer_ = FileDescriptor{ends[1]};
  }

  void write_as_peer(const std::string& bytes) const {
    ASSERT_EQ(::send(peer_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  /// The bytes that wait at the peer. `has_ended`: the connection ends behind them.
  std::string read_as_peer(bool& has_ended) const {
    std::string all;
    std::array<char, 65'536> buffer{};
    while (true) {
      const ssize_t size = recv(peer_.get(), buffer.data(), buffer.size(), 0);
      has_ended = size == 0;
      if (size <= 0) return all;
      all.append(buffer.data(), static_cast<std::size_t>(size));
    }
  }
  /// Sends reports that the peer does not read until some of their bytes stay here. Returns how many it has sent.
  std::size_t fill() {
    std::size_t count = 0;
    for (; !connection_->has_unsent() && count < 100'000; ++count) EXPECT_TRUE(connection_->send(report_));
    return count;
  }

  const PeerMessage report_ =
      FailureReport{{.culprit = 3, .exit_code = 1, .reason = "Error", .message = std::string(1'000, 'x')}};
  std::optional<PeerConnection> connection_;
  FileDescriptor peer_;
};

TEST_F(PeerConnectionTest, ReturnsWhatThePeerHasSaidBeforeThatItHasGone) {
  const std::string frames = make_frame(encode(report_)) + make_frame(encode(Done{}));
  write_as_peer(frames.substr(0, 9));
  auto received = connection_->receive();
  ASSERT_TRUE(received) << received.error().message;
  EXPECT_EQ(*received, Messages{}) << "the message is not whole yet";
  write_as_peer(frames.substr(9));
  peer_.reset();
  received = connection_->receive();
  ASSERT_TRUE(received) << received.error().message;
  EXPECT_EQ(*received, (Messages{report_, Done{}}));
  received = connection_->receive();
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(received.error().message, "closed by the other side");
}

TEST_F(PeerConnectionTest, RefusesWhatIsNoLaunchersMessage) {
  write_as_peer(make_frame(R"({"type":"dance"})"));
  const auto received = connection_->receive();
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().kind, ErrorKind::invalid);
}

TEST_F(PeerConnectionTest, KeepsWhatThePeerDoesNotTakeAtOnceUntilItDoes) {
  const std::size_t count = fill();
  ASSERT_TRUE(connection_->has_unsent());
  std::string got;
  bool has_ended = false;
  while (connection_->has_unsent()) {
    got += read_as_peer(has_ended);
    ASSERT_TRUE(connection_->flush());
  }
  got += read_as_peer(has_ended);
  EXPECT_FALSE(has_ended);
  std::string expected;
  for (std::size_t number = 0; number < count; ++number) expected += make_frame(encode(report_));
  EXPECT_TRUE(got == expected) << got.size() << " bytes of " << expected.size();
}

TEST_F(PeerConnectionTest, GivesUpAPeerThatReadsNothing) {
  const std::size_t taken = fill();
  const std::size_t report_bytes = make_frame(encode(report_)).size();
  std::size_t kept = 1;
  auto sent = connection_->send(report_);
  for (; sent && kept < 100'000; ++kept) sent = connection_->send(report_);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(sent.error().message, "the peer does not read what it is sent");
  EXPECT_NEAR(static_cast<double>(kept * report_bytes), 1 << 20, 3 * static_cast<double>(report_bytes)) << taken;
}

TEST_F(PeerConnectionTest, EndsOnlyOnceAllIsSentAndListensOn) {
  fill();
  connection_->finish();
  std::string got;
  bool has_ended = false;
  while (connection_->has_unsent()) {
    got += read_as_peer(has_ended);
    EXPECT_FALSE(has_ended) << "some was not sent yet";
    ASSERT_TRUE(connection_->flush());
  }
  got += read_as_peer(has_ended);
  EXPECT_TRUE(has_ended);
  EXPECT_EQ(got.size() % make_frame(encode(report_)).size(), 0U);
  write_as_peer(make_frame(encode(Done{})));
  const auto received = connection_->receive();
  ASSERT_TRUE(received) << received.error().message;
  EXPECT_EQ(*received, Messages{Done{}});
}

TEST_F(PeerConnectionTest, EndsAtOnceWhereNothingWaits) {
  connection_->finish();
  bool has_ended = false;
  EXPECT_EQ(read_as_peer(has_ended), "");
  EXPECT_TRUE(has_ended);
}

TEST_F(PeerConnectionTest, SaysThatThePeerIsGoneAndLivesOn) {
  peer_.reset();
  const auto sent = connection_->send(report_);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(sent.error().message, "Broken pipe");
}

}  // namespace
}  // namespace trainyard::launcher
