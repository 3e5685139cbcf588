#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "worker/launcher/peer_message.hpp"
#include "worker/rank/rank_message.hpp"

namespace trainyard::launcher {
namespace {

TEST(RankMessages, AreReadBackAsTheyWereSent) {
  rank::RankProgress progress;
  progress.phase = "Training";
  progress.epoch = 2;
  progress.epochs = 3;
  progress.step = 120;
  progress.total_steps = 900;
  progress.loss = 0.5;
  progress.samples_per_second = 2500.25;
  progress.eta_seconds = 61;
  progress.step_milliseconds = {{"data", 0.5}, {"forward", 20}};
  progress.accuracy = 0.875;
  progress.checkpoint = rank::SavedCheckpoint{.step = 100,
                                              .uri = "s3://m/step-100/g-1",
                                              .time = Time{std::chrono::milliseconds{1'700'000'000'123}},
                                              .bytes = 77,
                                              .duration_seconds = 1.5};
  progress.checkpoint_error = "rank 1: putting s3://m/step-110: 503";
  progress.checkpoint_request = rank::RequestRecord{
      .request = {.id = "a"}, .state = contract::RequestState::done, .step = 100, .uri = "s3://m/step-100/g-1"};
  progress.waiting_for = "nobody";
  rank::RankProgress failing{.phase = "Training"};
  failing.checkpoint_request = rank::RequestRecord{.request = {.id = "a", .then = rank::Then::exit},
                                                   .state = contract::RequestState::failed,
                                                   .message = "the disk is full"};
  const std::vector<rank::RankMessage> messages{
      rank::Alive{},
      rank::Beat{},
      rank::Beat{.long_wait = "the gradients' all-reduce"},
      progress,
      failing,
      rank::RankProgress{.phase = "Loading"},
      rank::CheckpointRequest{.id = "suspend-3", .then = rank::Then::exit},
      rank::CheckpointRequest{.id = "a"},
      rank::RankEnd{
          .exit_code = 90, .reason = "PeerLost", .message = "rank 1 is gone", .culprit = 1, .culprit_exit_code = 137},
      rank::RankEnd{.exit_code = 0, .reason = "Completed", .message = "", .culprit = {}}};
  for (const rank::RankMessage& message : messages) {
    const auto read = rank::decode_rank_message(encode(message));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, message);
  }
}

TEST(RankMessages, KeepALossThatIsNotANumber) {
  rank::RankProgress progress;
  progress.phase = "Training";
  progress.loss = std::nan("");
  const auto read = rank::decode_rank_message(encode(progress));
  ASSERT_TRUE(read);
  ASSERT_TRUE(std::get<rank::RankProgress>(*read).loss);
  EXPECT_TRUE(std::isnan(*std::get<rank::RankProgress>(*read).loss));
}

TEST(RankMessages, FitIntoAPacketWhateverTheirText) {
  for (const char c : {'\x01', '\xff', '"', 'x'}) {
    const rank::RankEnd end{.exit_code = 1, .reason = "Error", .message = std::string(100'000, c), .culprit = {}};
    const std::string packet = encode(end);
    EXPECT_LE(packet.size(), rank::rank_message_bytes_max);
    EXPECT_TRUE(rank::decode_rank_message(packet));
  }
}

TEST(RankMessages, BoundTheNameOfACollective) {
  const auto read = rank::decode_rank_message(R"({"type":"beat","longWait":")" + std::string(999, 'x') + R"("})");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(std::get<rank::Beat>(*read).long_wait.size(), rank::collective_bytes_max);
}

TEST(RankMessages, ThatAreNoneAreRefused) {
  for (const std::string packet : {"", "{}", "[]", R"({"type":"dance"})", R"({"type":"end"})",
                                   R"({"type":"progress","phase":3})", R"({"type":"checkpoint"})", "\xff"}) {
    const auto read = rank::decode_rank_message(packet);
    ASSERT_FALSE(read) << packet;
    EXPECT_EQ(read.error().kind, ErrorKind::invalid);
  }
}

TEST(PeerMessages, AreReadBackAsTheyWereSent) {
  const std::vector<PeerMessage> messages{
      Hello{.job = "mnist", .job_uid = "u", .attempt = 2, .world_size = 8, .first_rank = 4, .rank_count = 4},
      Welcome{},
      Refusal{.job_uid = "u", .attempt = 3, .message = "no"},
      PeerBeat{},
      PeerBeat{.missing = {1, 5}},
      PeerBeat{.missing = {},
               .long_waits = {{.collective = "a sum", .ranks = 3, .first_rank = 4}, {.collective = "a"}}},
      FailureReport{{.culprit = 3, .exit_code = 137, .reason = "Killed", .message = "rank 3 was killed"}},
      FailureReport{{.culprit = {}, .exit_code = 94, .reason = "Rendezvous", .message = "nobody came"}},
      Done{}};
  for (const PeerMessage& message : messages) {
    const auto read = decode_peer_message(encode(message));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, message);
  }
}

TEST(PeerMessages, FitIntoAFrameWhateverTheyHold) {
  std::vector<std::int64_t> all(10'000);
  const FailureReport report{
      {.culprit = 0, .exit_code = 1, .reason = std::string(9'999, 'r'), .message = std::string(99'999, '\x01')}};
  const FailureReport of_bytes{
      {.culprit = 0, .exit_code = 1, .reason = "Error", .message = std::string(99'999, '\xff')}};
  const Refusal refusal{.job_uid = "u", .attempt = 2, .message = std::string(99'999, '\x01')};
  const LongWait long_name{.collective = std::string(9'999, '\x01'), .ranks = 1, .first_rank = 99'999};
  const PeerBeat waits{.missing = all, .long_waits = std::vector<LongWait>(long_waits_max, long_name)};
  for (const PeerMessage& message : {PeerMessage{PeerBeat{all}}, PeerMessage{waits}, PeerMessage{report},
                                     PeerMessage{of_bytes}, PeerMessage{refusal}}) {
    const std::string payload = encode(message);
    EXPECT_LE(payload.size(), frame_bytes_max);
    EXPECT_TRUE(decode_peer_message(payload));
  }
}

TEST(PeerMessages, NameTheFirstOfManyMissingRanks) {
  for (const std::size_t missing : {32U, 33U}) {
    std::vector<std::int64_t> ranks(missing);
    std::iota(ranks.begin(), ranks.end(), 5);
    const auto read = decode_peer_message(encode(PeerBeat{ranks}));
    ASSERT_TRUE(read) << read.error().message;
    ranks.resize(32);
    EXPECT_EQ(*read, PeerMessage{PeerBeat{ranks}});
  }
}

TEST(PeerMessages, HaveNoMoreAndNoLongerWaitsThanALauncherSends) {
  const nlohmann::json wait{{"collective", std::string(999, 'x')}, {"ranks", 1}, {"firstRank", 0}};
  const nlohmann::json sent{
      {"type", "beat"}, {"missing", nlohmann::json::array()}, {"longWaits", std::vector(long_waits_max + 1, wait)}};
  const auto read = decode_peer_message(sent.dump());
  ASSERT_TRUE(read) << read.error().message;
  const auto& waits = std::get<PeerBeat>(*read).long_waits;
  EXPECT_EQ(waits.size(), long_waits_max);
  EXPECT_EQ(waits.front().collective.size(), rank::collective_bytes_max);
}

TEST(PeerMessages, ThatAreNoneAreRefused) {
  for (const std::string payload :
       {"", "GET / HTTP/1.1", R"({"type":"dance"})", R"({"type":"hello"})", R"({"type":"beat","missing":7})", "[]",
        R"({"type":7})", R"({"type":"done"}{"type":"done"})", R"({"type":"failure"})",
        R"({"type":"refusal","jobUid":"u","attempt":"2","message":"no"})"}) {
    const auto read = decode_peer_message(payload);
    ASSERT_FALSE(read) << payload;
    EXPECT_EQ(read.error().kind, ErrorKind::invalid);
  }
}

TEST(Frames, ArePutTogetherFromPiecesOfAnySize) {
  const std::string stream = make_frame("one") + make_frame("") + make_frame(std::string(frame_bytes_max, 'x'));
  for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, std::size_t{7}, stream.size()}) {
    FrameReader reader;
    std::vector<std::string> payloads;
    for (std::size_t i = 0; i < stream.size(); i += piece) {
      const auto completed = reader.feed(std::string_view{stream}.substr(i, piece));
      ASSERT_TRUE(completed);
      payloads.insert(payloads.end(), completed->begin(), completed->end());
    }
    EXPECT_EQ(payloads, (std::vector<std::string>{"one", "", std::string(frame_bytes_max, 'x')})) << piece;
  }
}

TEST(Frames, AreReturnedAsSoonAsTheyAreWhole) {
  for (const std::string payload : {"", "one"}) {
    FrameReader reader;
    const auto payloads = reader.feed(make_frame(payload));
    ASSERT_TRUE(payloads);
    EXPECT_EQ(*payloads, std::vector<std::string>{payload});
  }
}

TEST(Frames, ThatAreTooLongComeFromNoLauncher) {
  // In the second one only the first of the four bytes of length says so. The third one is a byte too long.
  for (const std::string& bytes : {std::string{"GET /status HTTP/1.1\r\n\r\n"}, std::string{"\x01\0\0\x03one", 7},
                                   std::string{"\0\0\x40\x01", 4}}) {
    FrameReader reader;
    const auto payloads = reader.feed(bytes);
    ASSERT_FALSE(payloads);
    EXPECT_EQ(payloads.error().kind, ErrorKind::invalid);
  }
}

}  // namespace
}  // namespace trainyard::launcher
