#include <fmt/format.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/logs.hpp"
#include "cli/run_folder.hpp"
#include "tests/builders/a_job.hpp"
#include "tests/fakes/scripted_api_server.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::cli {
namespace {

using api::Phase;

struct LogsCase {
  std::string_view name;
  Phase phase;
  std::int64_t attempt;
  std::optional<std::int64_t> wanted;
  std::int64_t printed;
  bool is_following;
  LogAction action;
};

TEST(NextLogAction, FollowsAJobAcrossItsAttemptsToItsRest) {
  const std::vector<LogsCase> table{
      {"no pods yet", Phase::pending, 0, {}, 0, false, LogAction::end},
      {"no pods yet, followed", Phase::pending, 0, {}, 0, true, LogAction::wait},
      {"refused before its first pod, followed", Phase::failed, 0, {}, 0, true, LogAction::end},
      {"running", Phase::running, 2, {}, 0, false, LogAction::print},
      {"printed", Phase::running, 2, {}, 2, false, LogAction::end},
      {"the rank ended, the job not yet", Phase::running, 2, {}, 2, true, LogAction::wait},
      {"restarted", Phase::restarting, 3, {}, 2, true, LogAction::print},
      {"over, with an attempt that came meanwhile", Phase::failed, 3, {}, 2, true, LogAction::print},
      {"over", Phase::succeeded, 3, {}, 3, true, LogAction::end},
      {"its checkpoints go with it", Phase::deleting, 3, {}, 3, true, LogAction::end},
      {"suspended", Phase::suspended, 3, {}, 3, true, LogAction::end},
      {"an attempt of its own", Phase::running, 3, 1, 0, true, LogAction::print},
      {"an attempt of its own, printed", Phase::running, 3, 1, 1, true, LogAction::end},
  };
  for (const LogsCase& row : table) {
    api::TrainingJobStatus status;
    status.phase = row.phase;
    status.attempt = row.attempt;
    EXPECT_EQ(next_log_action(status, row.wanted, row.printed, row.is_following), row.action) << row.name;
  }
}

const Time first_day{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};

/// A cluster with the running job "small", whose API server gives the next of `logs` for each request for a log.
/// Before the last of them the job has succeeded. Nothing: there is no such pod.
class ClusterWithLogs {
 public:
  explicit ClusterWithLogs(std::vector<std::optional<std::string>> logs) : logs_{std::move(logs)} {
    folder_.write("ca.crt", server_.authority().pem());
    folder_.write("kubeconfig", fmt::format(R"({{"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{{"name": "c", "context": {{"cluster": "c", "user": "u"}}}}],
        "clusters": [{{"name": "c", "cluster": {{"server": "https://127.0.0.1:{}", "certificate-authority": "ca.crt"}}}}],
        "users": [{{"name": "u", "user": {{"token": "secret"}}}}]}})",
                                            server_.port()));
  }

  /// The output of `trainyard logs small -f`.
  std::string followed() {
    testing::internal::CaptureStdout();
    const int exit_code =
        print_logs({.job = "small", .is_following = true, .folder = "", .cluster = {.kubeconfig = path()}});
    const std::string output = testing::internal::GetCapturedStdout();
    EXPECT_EQ(exit_code, 0);
    return output;
  }

 private:
  [[nodiscard]] std::string path() const { return folder_.file("kubeconfig").string(); }
  void answer(const httplib::Request& request, httplib::Response& response) {
    if (request.path.ends_with("/log")) {
      if (const auto& log = logs_.at(asked_++)) {
        response.set_content(*log, "text/plain");
      } else {
        fakes::answer_status(response, 404, "NotFound", "no such pod");
      }
    } else {
      nlohmann::json job = builders::a_job().named("small").manifest();
      job["metadata"]["uid"] = "u";
      job["status"] = {{"attempt", 1}, {"phase", asked_ + 1 < logs_.size() ? "Running" : "Succeeded"}};
      fakes::answer_json(response, job.dump());
    }
  }

  const std::vector<std::optional<std::string>> logs_;
  std::atomic<std::size_t> asked_ = 0;
  const fakes::TemporaryFolder folder_;
  fakes::ScriptedApiServer server_{[this](const auto& request, auto& response) { answer(request, response); }};
};

TEST(ClusterLogs, OfAContainerThatDidNotRunYetAreAskedForAgain) {
  EXPECT_EQ(ClusterWithLogs({"", "hello\n"}).followed(), "hello\n");
}

TEST(ClusterLogs, OfARankThatWritesNothingEndWithTheJob) {
  EXPECT_EQ(ClusterWithLogs({"", ""}).followed(), "");
  EXPECT_EQ(ClusterWithLogs({"", std::nullopt}).followed(), "") << "its pod was removed";
}

class LocalLogsTest : public testing::Test {
 protected:
  std::string print(const LogsOptions& options) const {
    std::string printed;
    const auto done = print_local_logs(options, folder_.path(), [&](std::string_view bytes) { printed += bytes; });
    return done ? printed : "error: " + done.error().message;
  }
  void write_log(const std::string& name, const std::string& text) const {
    const auto path = folder_.file("logs/latest") / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream{path} << text;
  }

  const fakes::TemporaryFolder folder_;
};

TEST_F(LocalLogsTest, FollowingWaitsForTheFirstRankOfALiveRun) {
  std::optional run{RunFolder::open(folder_.path(), first_day)};
  auto followed = std::async(std::launch::async, [&] { return print({.job = "job", .is_following = true}); });
  write_log("attempt-1/rank-0.log", "hello\n");
  run.reset();
  EXPECT_EQ(followed.get(), "hello\n");
}

TEST_F(LocalLogsTest, FollowingAnEndedRunPrintsWhatThereIs) {
  ASSERT_TRUE(RunFolder::open(folder_.path(), first_day));
  EXPECT_EQ(print({.job = "job", .is_following = true}), "error: no rank of job has started yet in " + folder_.path());
  write_log("attempt-1/rank-0.stdout.log", "out\n");
  write_log("attempt-1/rank-0.stderr.log", "err\n");
  write_log("attempt-1/rank-12.log", "");
  EXPECT_EQ(print({.job = "job", .is_following = true}), "out\nerr\n");
  EXPECT_EQ(print({.job = "job", .rank = 2}), "error: there is no log of rank 2 in attempt 1; ranks with a log: 0, 12");
}

TEST_F(LocalLogsTest, FollowingPrintsWhatARankSaidLastAlsoWhenTheNextAttemptHasBegun) {
  std::optional run{RunFolder::open(folder_.path(), first_day)};
  write_log("attempt-1/rank-0.stdout.log", "out\n");
  write_log("attempt-1/rank-0.stderr.log", "err\n");
  std::string printed;
  const auto print_and_continue = [&](std::string_view bytes) {
    printed += bytes;
    if (bytes != "err\n") return;
    // At this point the log of standard output has already been read.
    write_log("attempt-1/rank-0.stdout.log", "out\nlast\n");
    write_log("attempt-2/rank-0.log", "two\n");
    run.reset();
  };
  EXPECT_TRUE(print_local_logs({.job = "job", .is_following = true}, folder_.path(), print_and_continue));
  EXPECT_EQ(printed, "out\nerr\nlast\ntwo\n");
}

TEST_F(LocalLogsTest, AnAttemptIsFollowedWhileItRuns) {
  std::optional run{RunFolder::open(folder_.path(), first_day)};
  write_log("attempt-1/rank-0.stderr.log", "err\n");
  std::string printed;
  const auto print_and_continue = [&](std::string_view bytes) {
    printed += bytes;
    // At this point the log of standard output has already been read: it is read again only if the rank is followed.
    if (bytes == "err\n") write_log("attempt-1/rank-0.stdout.log", "out\n");
    if (bytes == "out\n") run.reset();
  };
  EXPECT_TRUE(print_local_logs({.job = "job", .attempt = 1, .is_following = true}, folder_.path(), print_and_continue));
  EXPECT_EQ(printed, "err\nout\n");
}

TEST_F(LocalLogsTest, AnAttemptIsFollowedUntilTheNextOneBegins) {
  const auto run = RunFolder::open(folder_.path(), first_day);
  write_log("attempt-1/rank-0.log", "one\n");
  write_log("attempt-2/rank-0.log", "two\n");
  EXPECT_EQ(print({.job = "job", .attempt = 1, .is_following = true}), "one\n");
}

}  // namespace
}  // namespace trainyard::cli
