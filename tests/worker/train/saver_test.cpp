// Checkpoints of a training while the storage is unreachable for long.
#include "worker/train/saver.hpp"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "api/contract.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/memory_store.hpp"
#include "tests/worker/fakes/fake_rank_link.hpp"

namespace trainyard::train {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

std::vector<std::string> lines_with(const std::string& text, const std::string& words) {
  std::vector<std::string> found;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    if (line.find(words) != std::string::npos) found.push_back(line);
  }
  return found;
}

/// A run that makes a step in ten seconds and saves each third step, in a store that the test can make unreachable.
class ALongRun : public testing::Test {
 protected:
  void SetUp() override {
    state.entries.push_back({"weight", checkpoint::Placement::replicated, torch::zeros({256, 64})});
    checkpointer = open(1);
    ASSERT_TRUE(checkpointer && checkpointer->restore(state));
    saver.emplace(*checkpointer, link, clock, /*is_rank0=*/true);
  }

  std::unique_ptr<checkpoint::Checkpointer> open(std::int64_t attempt) {
    api::CheckpointSpec spec;
    spec.uri = "memory://";
    auto store = std::make_unique<fakes::FaultyStore>(
        std::make_unique<fakes::MemoryStore>(objects),
        [this](std::string_view call, std::string_view, storage::Pieces pieces) -> std::optional<Error> {
          for (const auto& piece : pieces) {
            if (call == "put" && piece.size() >= 65'536) staged_at.insert(piece.data());
          }
          if (is_away) return Error{ErrorKind::unavailable, "the store is away", std::nullopt};
          return std::nullopt;
        });
    auto opened = checkpoint::open_checkpointer(
        std::move(store), spec, {.job = "ns/job", .job_uid = "uid", .attempt = attempt, .fingerprint = "same"}, single,
        clock);
    return opened ? std::move(*opened) : nullptr;
  }

  void train_for(std::chrono::minutes time) {
    const Instant end = clock.instant() + time;
    while (clock.instant() < end) {
      clock.advance(10s);
      ++step;
      state.entries.front().tensor.fill_(static_cast<double>(step));
      if (step % 3 != 0) continue;
      saver->begin(state, step, {});
      ASSERT_TRUE(saver->wait()) << "training goes on";
    }
  }

  fakes::MemoryObjects objects;
  fakes::FakeClock clock;
  fakes::FakeRankLink link;
  checkpoint::SingleCommunicator single;
  bool is_away = false;
  std::set<const std::byte*> staged_at;
  checkpoint::State state;
  std::unique_ptr<checkpoint::Checkpointer> checkpointer;
  std::optional<Saver> saver;
  std::int64_t step = 0;
};

TEST_F(ALongRun, TrainsWhileTheStorageIsAwayForAnHourSaysSoAndCatchesUp) {
  testing::internal::CaptureStderr();
  train_for(10min);
  const auto before = saver->last();
  ASSERT_TRUE(before && before->step == step);

  is_away = true;
  train_for(60min);
  EXPECT_EQ(step, 420);
  EXPECT_THAT(saver->error(), HasSubstr("the store is away"));
  EXPECT_EQ(saver->last(), before);

  is_away = false;
  train_for(1min);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(saver->error(), "");
  EXPECT_EQ(saver->last()->step, step);

  const auto failures = lines_with(log, "saving failed; training goes on");
  ASSERT_EQ(failures.size(), 60U) << "one a minute";
  EXPECT_THAT(failures.front(), HasSubstr("the store is away  failedSaves=1  seconds=0"));
  EXPECT_THAT(failures.back(), HasSubstr("failedSaves=119  seconds=3540"));
  const auto ends = lines_with(log, "checkpoints are saved again");
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_THAT(ends.front(), HasSubstr("failedSaves=120  seconds=3600"));
  EXPECT_EQ(staged_at.size(), 1U) << "one copy of the state, in the same memory each time";

  checkpoint::State restored = state;
  restored.entries.front().tensor = torch::zeros({256, 64});
  const auto found = open(2)->restore(restored);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->step, step);
  EXPECT_TRUE(torch::equal(restored.entries.front().tensor, state.entries.front().tensor));
}

/// A checkpointer whose save runs from begin_save() until the test ends it.
class ScriptedCheckpointer final : public checkpoint::Checkpointer {
 public:
  std::string trouble_now;
  bool has_ended = true;
  std::optional<Error> error;  ///< Set: every save fails with it.
  std::function<void()> on_begin = [] {};
  std::function<void()> on_staging = [] {};
  std::optional<bool> is_copied_on_device;

  Result<std::optional<checkpoint::Restored>> restore(checkpoint::State&) override { return std::nullopt; }
  [[nodiscard]] std::int64_t generation() const override { return 1; }
  void begin_save(const checkpoint::State&, std::int64_t step, const checkpoint::SaveOptions& options) override {
    step_ = step;
    is_copies_only_ = options.is_copies_only;
    has_ended = false;
    on_begin();
  }
  void finish_staging() override { on_staging(); }
  [[nodiscard]] bool is_saving() const override { return !has_ended; }
  [[nodiscard]] std::string trouble() const override { return trouble_now; }
  std::optional<checkpoint::SaveOutcome> take_outcome(std::chrono::milliseconds) override {
    checkpoint::SaveOutcome outcome{
        .step = step_,
        .saved = checkpoint::Saved{.step = step_, .uri = "memory://step", .time = Time{5s}, .bytes = 77}};
    outcome.is_copies_only = is_copies_only_;
    outcome.is_copied_on_device = is_copied_on_device;
    outcome.duration = 1500ms;
    if (error) outcome.saved = tl::unexpected(*error);
    return outcome;
  }
  Result<void> end(const std::function<bool()>& /*is_stop_asked*/) override { return {}; }
  void remove_copies() override {}

 private:
  std::int64_t step_ = 0;
  bool is_copies_only_ = false;
};

TEST(ASaver, OwesASaveForStepsLeftOutWhileASaveMetTroubleAndForNoneAfterIt) {
  ScriptedCheckpointer checkpointer;
  const fakes::FakeRankLink link;
  const fakes::FakeClock clock;
  Saver saver{checkpointer, link, clock, /*is_rank0=*/false};
  const auto save = [&](std::int64_t step, const std::string& trouble) {
    saver.begin({}, step, {});
    checkpointer.trouble_now = trouble;
    saver.watch();
    checkpointer.trouble_now.clear();
    saver.skip(step + 1);
    checkpointer.has_ended = true;
    ASSERT_TRUE(saver.poll_outcome());
  };
  save(10, "the store is away");
  EXPECT_TRUE(saver.is_owed());
  save(20, "");
  EXPECT_FALSE(saver.is_owed()) << "this one met no trouble";
}

rank::CheckpointRequest request(rank::Then then) {
  return {.id = "r", .then = then};
}

TEST(ASaver, AnswersARequestAtTheEndByAStateOfTheLastStepOnly) {
  struct Case {
    std::string what;
    std::optional<std::int64_t> resumed, saved;  // Steps.
    std::optional<std::int64_t> answer;          // Nothing: the request fails.
  };
  const std::vector<Case> cases{{"nothing is saved", {}, {}, {}}, {"resumed there", 7, {}, 7},
                                {"resumed before", 5, {}, {}},    {"saved there", {}, 7, 7},
                                {"saved before", {}, 6, {}},      {"saved before, and resumed before that", 5, 6, {}}};
  for (const Case& c : cases) {
    ScriptedCheckpointer checkpointer;
    fakes::FakeRankLink link;
    const fakes::FakeClock clock;
    Saver saver{checkpointer, link, clock, /*is_rank0=*/false};
    if (c.resumed) saver.resume_from({.step = *c.resumed, .uri = "memory://resumed"});
    if (c.saved) {
      saver.begin({}, *c.saved, {});
      checkpointer.has_ended = true;
      ASSERT_TRUE(saver.poll_outcome());
    }
    link.ask_for_checkpoint(request(rank::Then::exit));
    saver.end(7, {.exit_code = 0, .reason = "Preempted", .message = "stopped as asked", .culprit = {}});
    const auto record = saver.requests().record();
    ASSERT_TRUE(record.has_value()) << c.what;
    EXPECT_EQ(record->step, c.answer) << c.what;
    EXPECT_EQ(record->message, c.answer ? "" : "stopped as asked") << c.what;
  }
}

TEST(ASaver, ReportsATroubleOnlyUntilTheSaveHasEnded) {
  ScriptedCheckpointer checkpointer;
  const fakes::FakeRankLink link;
  const fakes::FakeClock clock;
  Saver saver{checkpointer, link, clock, /*is_rank0=*/false};
  saver.begin({}, 10, {});
  checkpointer.trouble_now = "the store is away";
  saver.watch();
  EXPECT_EQ(saver.error(), "step 10 is not saved yet: the store is away");
  checkpointer.has_ended = true;
  ASSERT_TRUE(saver.poll_outcome());
  EXPECT_EQ(saver.error(), "");
}

TEST(ASaver, LeavesTheRequestToTheNextAttemptWhereTheGroupBroke) {
  for (const bool is_broken : {false, true}) {
    ScriptedCheckpointer checkpointer;
    checkpointer.error = Error{.kind = is_broken ? ErrorKind::cancelled : ErrorKind::forbidden,
                               .message = "no right to write there",
                               .retry_after = {}};
    fakes::FakeRankLink link;
    if (is_broken)
      link.break_group({.exit_code = contract::exit_peer_lost, .reason = "PeerLost", .message = "gone", .culprit = 1});
    const fakes::FakeClock clock;
    Saver saver{checkpointer, link, clock, /*is_rank0=*/false};
    link.ask_for_checkpoint(request(rank::Then::exit));
    saver.begin({}, 10, {.save = {}, .must_succeed = true});
    checkpointer.has_ended = true;
    const auto ended = saver.poll_outcome();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().reason, is_broken ? "PeerLost" : "StorageFailed");
    EXPECT_EQ(saver.requests().record().has_value(), !is_broken);
  }
}

TEST(ASaver, EndsARunWhoseCopiesFailWithAnErrorThatIsFinal) {
  ScriptedCheckpointer checkpointer;
  checkpointer.error = Error{.kind = ErrorKind::invalid, .message = "a state of another shape", .retry_after = {}};
  const fakes::FakeRankLink link;
  const fakes::FakeClock clock;
  Saver saver{checkpointer, link, clock, /*is_rank0=*/false};
  saver.begin({}, 10, {.save = {.is_copies_only = true}});
  checkpointer.has_ended = true;
  const auto ended = saver.poll_outcome();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().exit_code, contract::exit_do_not_restart);
}

TEST(ASaver, AnswersNoRequestByCopiesOnTheNodes) {
  ScriptedCheckpointer checkpointer;
  fakes::FakeRankLink link;
  const fakes::FakeClock clock;
  Saver saver{checkpointer, link, clock, /*is_rank0=*/false};
  link.ask_for_checkpoint(request(rank::Then::go_on));
  for (const bool is_copies_only : {true, false}) {
    saver.begin({}, 10, {.save = {.is_copies_only = is_copies_only}});
    EXPECT_EQ(saver.is_copies_only(), is_copies_only);
    EXPECT_EQ(saver.requests().is_save_asked(), is_copies_only);
    checkpointer.trouble_now = "the store is away";
    saver.watch();
    EXPECT_EQ(saver.error(), is_copies_only ? "" : "step 10 is not saved yet: the store is away");
    checkpointer.has_ended = true;
    ASSERT_TRUE(saver.poll_outcome());
    EXPECT_EQ(saver.last().has_value(), !is_copies_only);
    EXPECT_EQ(saver.requests().record().has_value(), !is_copies_only);
  }
  EXPECT_EQ(saver.last(),
            (rank::SavedCheckpoint{
                .step = 10, .uri = "memory://step", .time = Time{5s}, .bytes = 77, .duration_seconds = 1.5}));
}

TEST(ASaver, SaysWhyASaveFailedUntilOneSucceeds) {
  ScriptedCheckpointer checkpointer;
  fakes::FakeRankLink link;
  fakes::FakeClock clock;
  Saver saver{checkpointer, link, clock, /*is_rank0=*/false};
  checkpointer.error = Error{.kind = ErrorKind::io, .message = "the disk is full", .retry_after = {}};
  link.ask_for_checkpoint(request(rank::Then::go_on));
  saver.begin({}, 10, {});
  checkpointer.has_ended = true;
  ASSERT_TRUE(saver.poll_outcome()) << "training goes on";
  EXPECT_EQ(saver.error(), "the disk is full");
  ASSERT_TRUE(saver.requests().record());
  EXPECT_EQ(saver.requests().record()->state, contract::RequestState::failed);
  EXPECT_EQ(saver.requests().record()->message, "the disk is full");
  EXPECT_FALSE(saver.is_owed());
  clock.advance(5s);
  EXPECT_TRUE(saver.is_owed());

  saver.begin({}, 20, {});
  EXPECT_FALSE(saver.is_owed()) << "one is under way";
  checkpointer.trouble_now = "the store is away";
  saver.watch();
  EXPECT_EQ(saver.error(), "step 20 is not saved yet: the store is away");
  checkpointer.trouble_now.clear();
  saver.watch();
  EXPECT_EQ(saver.error(), "the disk is full") << "it is the last save's, until one succeeds";
  checkpointer.error.reset();
  checkpointer.has_ended = true;
  ASSERT_TRUE(saver.poll_outcome());
  EXPECT_EQ(saver.error(), "");
  clock.advance(1h);
  EXPECT_FALSE(saver.is_owed());
}

TEST(ASaver, LogsHowTheStateCameToTheHostAndHowLongTrainingWaited) {
  for (const auto& [is_copied, staging] : {std::pair{std::optional<bool>{}, "direct"},
                                           {std::optional{true}, "deviceCopy"},
                                           {std::optional{false}, "pinnedBuffers"}}) {
    ScriptedCheckpointer checkpointer;
    checkpointer.is_copied_on_device = is_copied;
    const fakes::FakeRankLink link;
    fakes::FakeClock clock;
    checkpointer.on_begin = [&clock] { clock.advance(1s); };
    checkpointer.on_staging = [&clock] { clock.advance(2s); };
    Saver saver{checkpointer, link, clock, /*is_rank0=*/true};
    testing::internal::CaptureStderr();
    for (const std::int64_t step : {10, 20}) {
      saver.begin({}, step, {});
      saver.finish_staging();
      checkpointer.has_ended = true;
      saver.finish_staging();  // No save is under way: it is not waited for.
      ASSERT_TRUE(saver.poll_outcome());
    }
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(lines_with(log, std::string{"bytes=77  seconds=1.5  stallSeconds=3.0  staging="} + staging).size(), 2U)
        << log;
  }
}

}  // namespace
}  // namespace trainyard::train
