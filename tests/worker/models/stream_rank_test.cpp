// Data without a size, read by real launchers and ranks as docs/data.md shows.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"
#include "tests/worker/launcher/launcher_process.hpp"

namespace trainyard {
namespace {

using launcher::LauncherProcess;
using launcher::TestGroup;
using testing::HasSubstr;

/// Slope and offset before a step.
using Fit = std::pair<double, double>;

/// A file of lines "x y".
std::string write_lines(const fakes::TemporaryFolder& folder, int count) {
  const std::string file = folder.path() + "/lines";
  std::ofstream lines{file};
  for (int line = 0; line < count; ++line) {
    const double x = (line * 37 % 101) / 101.0;
    lines << fmt::format("{:.6f} {:.6f}\n", x, 3 * x + 1 + (line * 53 % 17) / 100.0);
  }
  return file;
}

struct Job {
  std::string data;      // options of the data, as JSON
  std::string training;  // more fields of the training, each with a comma before it
  std::string spec;      // more fields of the spec, likewise
};

TestGroup group_of(const Job& job, std::int64_t world_size = 2) {
  return {
      .world_size = world_size,
      .variables = {{"TRAINYARD_SPEC",
                     fmt::format(R"({{"training": {{"model": {{"name": "line_fit"}}, "batchSize": 10, )"
                                 R"("optimizer": {{"name": "sgd", "lr": 0.1}}, "log": {{"every": {{"steps": 1}}}}, )"
                                 R"("data": {{"format": "synthetic", "options": {}}}{}}}{}}})",
                                 job.data, job.training, job.spec)},
                    {"TRAINYARD_HEARTBEAT_SECONDS", "3"},
                    {"OMP_NUM_THREADS", "1"},
                    {"CUDA_VISIBLE_DEVICES", "-1"}},
      .store_script = "exec " + paths::program("trainyard-store") + " \"$@\""};
}

std::string rank_script() {
  return "exec " + paths::build("tests/worker/models/stream_model");
}

using Launchers = std::vector<std::unique_ptr<LauncherProcess>>;

Launchers start(const TestGroup& group, int attempt = 1) {
  Launchers launchers;
  for (std::int64_t rank = 0; rank < group.world_size; ++rank)
    launchers.push_back(std::make_unique<LauncherProcess>(
        group, rank, rank_script(),
        std::map<std::string, std::string>{{"TRAINYARD_STATUS_PORT", std::to_string(launcher::free_port())},
                                           {"TRAINYARD_JOB_UID", "uid"},
                                           {"TRAINYARD_ATTEMPT", std::to_string(attempt)}}));
  return launchers;
}

/// The log lines of rank 0 with that message.
std::vector<nlohmann::json> lines_of(const LauncherProcess& launcher, const std::string& message) {
  std::vector<nlohmann::json> found;
  std::istringstream lines{launcher.output()};
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (object.is_object() && object.value("message", "") == message) found.push_back(object);
  }
  return found;
}

std::vector<Fit> fits_of(const LauncherProcess& launcher) {
  std::vector<Fit> fits;
  for (const nlohmann::json& line : lines_of(launcher, "metrics"))
    fits.emplace_back(line.at("metrics").at("slope").get<double>(), line.at("metrics").at("offset").get<double>());
  return fits;
}

std::string checksum_of(const LauncherProcess& launcher) {
  const auto lines = lines_of(launcher, "training complete");
  return lines.empty() ? "" : lines.front().at("parametersChecksum").get<std::string>();
}

std::vector<Fit> fits_by_python(const std::string& file, std::int64_t world_size, bool joins) {
  const std::string output = file + ".fits";
  const std::string command =
      fmt::format("{} {} {} {} 10 2 0.1 {} > {} 2> {}.log", paths::torch_python(),
                  paths::source("tests/worker/models/stream_oracle.py"), file, world_size, joins ? 1 : 0, output, file);
  EXPECT_EQ(std::system(command.c_str()), 0) << command;  // NOLINT(concurrency-mt-unsafe): one thread
  std::vector<Fit> fits;
  std::ifstream lines{output};
  for (Fit fit; lines >> fit.first >> fit.second;) fits.push_back(fit);
  return fits;
}

TEST(DataWithoutASize, TrainsAsPyTorchDoesWithAnIterableDataset) {
  struct Case {
    int lines;
    std::int64_t world_size;
    bool joins;
    std::size_t steps;  // of two epochs
  };
  for (const Case& c : {Case{51, 2, false, 6}, Case{62, 3, true, 6}}) {
    const fakes::TemporaryFolder folder;
    const std::string file = write_lines(folder, c.lines);
    Job job{.data = fmt::format(R"({{"lines": "{}"}}, "replaceSampler": {})", file, !c.joins),
            .training = R"(, "epochs": 2)",
            .spec = {}};
    if (c.joins) job.training += R"(, "strategy": {"join": true})";
    const TestGroup group = group_of(job, c.world_size);
    const Launchers launchers = start(group);
    for (const auto& launcher : launchers) EXPECT_EQ(launcher->wait(), 0) << launcher->output();
    const std::vector<Fit> fits = fits_of(*launchers[0]);
    const std::vector<Fit> expected = fits_by_python(file, c.world_size, c.joins);
    ASSERT_EQ(fits.size(), c.steps) << launchers[0]->output();
    ASSERT_EQ(expected.size(), c.steps);
    for (std::size_t step = 0; step < c.steps; ++step) {
      EXPECT_NEAR(fits[step].first, expected[step].first, 2e-5) << c.lines << " lines, step " << step;
      EXPECT_NEAR(fits[step].second, expected[step].second, 2e-5) << c.lines << " lines, step " << step;
    }
    EXPECT_GT(fits.back().first, 0.3) << "it has learned something";
  }
}

TEST(DataWithoutASize, IsTrainedOnToTheSameBitsAfterARankWasKilled) {
  const fakes::TemporaryFolder folder;
  const std::string file = write_lines(folder, 460);  // 23 steps an epoch
  std::vector<std::string> checksums;
  for (const bool is_killed : {false, true}) {
    const auto start_attempt = [&](int attempt) {
      return start(group_of({.data = fmt::format(R"({{"lines": "{}"}})", file),
                             .training = R"(, "maxSteps": 60)",
                             // A save waits for the one before it, so that one is there when a rank dies.
                             .spec = fmt::format(R"(, "checkpoint": {{"uri": "{}/saved{}", "whenBusy": "wait", )"
                                                 R"("every": {{"steps": 8}}}})",
                                                 folder.uri(), is_killed)}),
                   attempt);
    };
    if (is_killed) {
      const Launchers launchers = start_attempt(1);
      EXPECT_EQ(launchers[1]->wait(), 137) << launchers[1]->output();
      EXPECT_EQ(launchers[0]->wait(), 90) << launchers[0]->output();
    }
    const Launchers launchers = start_attempt(2);
    for (const auto& launcher : launchers) EXPECT_EQ(launcher->wait(), 0) << launcher->output();
    EXPECT_EQ(launchers[0]->has_printed("resumed from a checkpoint"), is_killed);
    checksums.push_back(checksum_of(*launchers[0]));
  }
  EXPECT_FALSE(checksums[0].empty());
  EXPECT_EQ(checksums[0], checksums[1]);
}

TEST(DataWithoutASize, ThatDoesNotKeepToTheRulesEndsEveryRankAlike) {
  struct Case {
    std::string fault;
    std::string training;
    int exit_code;
    std::string message;
  };
  const std::vector<Case> cases{
      {"throws", "", 1, "reading a batch in step 1: the feed is torn"},
      {"tooMany", "", 93, "next() of the training stream gave 11 samples where 10 were asked for"},
      {"rows", "", 93, "next() of the training stream gave inputs of 11 rows for 9 samples"},
      {"empty", "", 93, "the streams of 2 of the 2 ranks have no samples in epoch 0: each rank needs at least one"},
      {"empty", R"(, "lrSchedule": {"name": "cosine"})", 93,
       "training.lrSchedule.name cosine needs the number of the last step"},
  };
  for (const Case& c : cases) {
    const TestGroup group =
        group_of({.data = fmt::format(R"({{"fault": "{}"}})", c.fault), .training = c.training, .spec = {}});
    const Launchers launchers = start(group);
    constexpr int lost_peer = 90;  // The launcher whose rank heard of the other's end first.
    int failures = 0;
    for (const auto& launcher : launchers) {
      const int code = launcher->wait();
      EXPECT_TRUE(code == c.exit_code || code == lost_peer) << c.fault << ": " << code << launcher->output();
      if (code != c.exit_code) continue;
      ++failures;
      EXPECT_THAT(launcher->termination_message().value("message", ""), HasSubstr(c.message)) << c.fault;
    }
    EXPECT_GE(failures, 1) << c.fault;
  }
}

}  // namespace
}  // namespace trainyard
