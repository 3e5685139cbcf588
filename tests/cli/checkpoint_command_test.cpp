#include "cli/checkpoint_command.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <tuple>
#include <vector>

#include "cli/request_box.hpp"
#include "cli/run_folder.hpp"
#include "local/memory_api.hpp"
#include "operator/plan/request_status.hpp"
#include "tests/builders/a_job.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/faulty_api.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::cli {
namespace {

using api::CheckpointRequest;
using api::RequestState;
using kube::json;
using namespace std::chrono_literals;

/// A clock that moves only in pauses, and the events that happen in them.
struct TimeOfTheTest {
  fakes::FakeClock clock;
  std::vector<std::function<void()>> happenings;  ///< One for each pause, in order.
  std::size_t pauses = 0;

  [[nodiscard]] Waiting waiting() {
    return {.clock = clock, .pause = [this](std::chrono::milliseconds time) {
              clock.advance(time);
              if (pauses < happenings.size()) happenings[pauses]();
              ++pauses;
            }};
  }
};

class RequestInCluster : public testing::Test {
 protected:
  void apply() { ASSERT_TRUE(api_.create(kube::training_jobs, "research", builders::a_job().manifest())); }
  /// The operator writes its answer into the job's status.
  void answer(const CheckpointRequest& request) {
    api::TrainingJobStatus status;
    status.checkpoint_request = request;
    json object = *api_.get(kube::training_jobs, "research", "smoke");
    object["status"] = api::to_json(status);
    ASSERT_TRUE(api_.update_status(kube::training_jobs, "research", object));
  }
  void fail_calls(const std::string& verb, const Error& error) {
    way_.set_schedule([=](const fakes::ApiCall& call) {
      return call.verb == verb ? std::optional{fakes::Fault{.error = error}} : std::nullopt;
    });
  }
  Result<std::string> request(std::chrono::milliseconds timeout = 0ms, bool is_sent_only = false) {
    return request_in_cluster(way_, "research",
                              {.job = "smoke", .cluster = {}, .timeout = timeout, .is_sent_only = is_sent_only}, "ours",
                              time_.waiting());
  }

  TimeOfTheTest time_;
  local::MemoryApi api_{time_.clock};
  fakes::FaultyApi way_{api_};
};

TEST_F(RequestInCluster, WritesTheAnnotationAndReturnsTheAnswer) {
  apply();
  answer({.id = "ours", .state = RequestState::done, .step = 1200, .uri = "s3://m/step-1200/g-1"});
  EXPECT_EQ(request(), "step 1200 saved: s3://m/step-1200/g-1");
  const auto job = api_.get(kube::training_jobs, "research", "smoke");
  EXPECT_EQ(job->at("metadata").at("annotations").at(std::string{plan::checkpoint_request_annotation}), "ours");
}

TEST_F(RequestInCluster, SaysWhyNoCheckpointWasMade) {
  apply();
  answer({.id = "ours", .state = RequestState::failed, .message = "spec.checkpoint is not set"});
  EXPECT_EQ(request().error().message, "no checkpoint was made: spec.checkpoint is not set");
}

TEST_F(RequestInCluster, EndsAtItsTimeoutWithWhatTheJobWaitsFor) {
  apply();
  EXPECT_EQ(request().error().message,
            "no answer within 0s: no operator has taken it up yet (the request stays in the job's annotation)");
  answer({.id = "ours", .message = "rank 0 saves it"});
  EXPECT_EQ(request().error().message,
            "no answer within 0s: rank 0 saves it (the request stays in the job's annotation)");
}

TEST_F(RequestInCluster, WaitsUntilThereIsAnAnswerOrNoneCanCome) {
  const auto pass = [] {};
  const auto take = [this] { answer({.id = "ours", .message = "rank 0 saves it"}); };
  const auto save = [this] { answer({.id = "ours", .state = RequestState::done, .step = 3, .uri = "u"}); };
  const auto break_off = [this](ErrorKind kind) {
    return [this, kind] { fail_calls("get", {.kind = kind, .message = "no route"}); };
  };
  const auto come_back = [this] { way_.set_schedule({}); };
  const auto remove = [this] { ASSERT_TRUE(api_.remove(kube::training_jobs, "research", "smoke")); };
  struct Row {
    std::string_view name;
    std::vector<std::function<void()>> happenings;
    std::size_t pauses;
    std::string said;
  };
  const std::vector<Row> rows{
      {"it is saved", {pass, take, save}, 3, "step 3 saved: u"},
      {"it takes too long",
       {take},
       4,
       "no answer within 2s: rank 0 saves it (the request stays in the job's annotation)"},
      {"it is saved at the last moment", {pass, pass, pass, save}, 4, "step 3 saved: u"},
      {"the server is away for a while", {break_off(ErrorKind::unavailable), save, come_back}, 3, "step 3 saved: u"},
      {"the server stays away",
       {break_off(ErrorKind::timeout)},
       4,
       "no answer within 2s: no route (the request stays in the job's annotation)"},
      {"the server turns it away", {break_off(ErrorKind::unauthorized)}, 1, "no route"},
      {"the job is deleted", {take, remove}, 2, "there is no TrainingJob smoke in the namespace research"},
  };
  for (const Row& row : rows) {
    apply();
    time_.happenings = row.happenings;
    time_.pauses = 0;
    const auto said = request(2s);
    EXPECT_EQ(said ? *said : said.error().message, row.said) << row.name;
    EXPECT_EQ(time_.pauses, row.pauses) << row.name;
    come_back();
    std::ignore = api_.remove(kube::training_jobs, "research", "smoke");
  }
}

TEST_F(RequestInCluster, IsSentWithoutWaiting) {
  apply();
  EXPECT_EQ(request(300s, true), "request ours was sent");
}

TEST_F(RequestInCluster, NamesAJobThatIsNotThere) {
  EXPECT_EQ(request().error().message, "there is no TrainingJob smoke in the namespace research");
}

TEST_F(RequestInCluster, SaysWhatRightIsMissing) {
  fail_calls("patch", {.kind = ErrorKind::forbidden, .message = "user jane cannot patch trainingjobs"});
  EXPECT_EQ(request().error().message,
            "to ask for a checkpoint you need permission to patch TrainingJobs in the namespace research, as the roles "
            "edit and admin have it: user jane cannot patch trainingjobs");
}

class RequestOfRun : public testing::Test {
 protected:
  Result<std::string> request() {
    return request_of_run(folder_.path(), {.job = "job", .cluster = {}, .timeout = 100ms}, "ours", time_.waiting());
  }
  void begin_run() {
    auto run = RunFolder::open(folder_.path(), Time{});
    ASSERT_TRUE(run);
    run_ = *std::move(run);
  }
  [[nodiscard]] std::string answer_file() const { return folder_.file(".requests/ours.answer"); }

  TimeOfTheTest time_;
  const fakes::TemporaryFolder folder_;
  std::optional<RunFolder> run_;
  RequestBox box_{folder_.path()};
};

TEST_F(RequestOfRun, WaitsUntilThereIsAnAnswerOrNoneCanCome) {
  const auto pass = [this] { EXPECT_EQ(box_.next().value(), "ours"); };
  const auto answer = [this] {
    ASSERT_TRUE(box_.answer({.id = "ours", .state = RequestState::done, .step = 7, .uri = "file:///c/step-7/g-1"}));
  };
  const auto refuse = [this] {
    ASSERT_TRUE(box_.answer({.id = "ours", .state = RequestState::failed, .message = "no space"}));
  };
  const auto end_run = [this] { run_.reset(); };
  const auto damage = [this] { folder_.write(".requests/ours.answer", "{"); };
  const std::string run = folder_.path();
  struct Row {
    std::string_view name;
    std::vector<std::function<void()>> happenings;
    std::size_t pauses;
    std::string said;
  };
  const std::vector<Row> rows{
      {"it is saved", {pass, answer}, 2, "step 7 saved: file:///c/step-7/g-1"},
      {"it is refused", {refuse}, 1, "no checkpoint was made: no space"},
      {"it takes too long", {pass, pass}, 2, "no answer within 100ms: the run in " + run + " has not saved it yet"},
      {"the run ends", {end_run}, 1, "the run in " + run + " ended without an answer"},
      {"the run ends with an answer",
       {[&] {
         answer();
         end_run();
       }},
       1,
       "step 7 saved: file:///c/step-7/g-1"},
      {"the answer is damaged", {damage}, 1, answer_file() + " is damaged"},
  };
  for (const Row& row : rows) {
    begin_run();
    time_.happenings = row.happenings;
    time_.pauses = 0;
    const auto said = request();
    EXPECT_EQ(said ? *said : said.error().message, row.said) << row.name;
    EXPECT_EQ(time_.pauses, row.pauses) << row.name;
    EXPECT_EQ(box_.next().value(), std::nullopt) << row.name << ": an answered request is gone, another is withdrawn";
    run_.reset();
  }
}

TEST_F(RequestOfRun, SaysThatTheRequestRemainsWhenItCannotBeWithdrawn) {
  begin_run();
  const std::string file = folder_.file(".requests/ours.request");
  time_.happenings = {[&] {
    std::filesystem::remove(file);
    std::filesystem::create_directory(file);
  }};
  EXPECT_EQ(request().error().message, "no answer within 100ms: the run in " + folder_.path() +
                                           " has not saved it yet (the request could not be withdrawn: removing " +
                                           file + ": Is a directory)");
}

TEST_F(RequestOfRun, NeedsARun) {
  EXPECT_EQ(request().error().message, "no run is in progress in " + folder_.path());
}

}  // namespace
}  // namespace trainyard::cli
