// Failures in a group of real processes with each of the strategies that are listed here: a rank that dies or
// stands still ends the group and is named, and a job that is stopped is trained further, also by another number of
// ranks. A strategy decides what the ranks wait for meanwhile, and what each has of its own.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"
#include "tests/worker/launcher/launcher_process.hpp"

namespace trainyard {
namespace {

using launcher::eventually;
using launcher::LauncherProcess;
using launcher::TestGroup;

struct Strategy {
  std::string what;
  std::string json;
  std::int64_t ranks_of_pod = 1;
};

const Strategy strategies[] = {
    {"Ddp", R"({"name": "ddp"})"},
    {"DdpBf16", R"({"gradientCompression": "bf16"})"},
    {"DdpPowerSgd", R"({"gradientCompression": "powersgd", "powerSgd": {"startStep": 2}})"},
    {"DdpSyncBatchNorm", R"({"syncBatchNorm": true})"},
    {"Ddp2", R"({"name": "ddp2", "cpuReplicas": 2})"},
    {"Horovod", R"({"name": "horovod", "gradientCompression": "fp16"})"},
    {"HorovodSum", R"({"name": "horovod", "op": "sum"})"},
    {"HorovodAdasum", R"({"name": "horovod", "op": "adasum"})"},
    {"BaguaGradientAllreduce", R"({"name": "bagua"})"},
    {"BaguaByteGrad", R"({"name": "bagua", "algorithm": "bytegrad"})"},
    {"BaguaQadam", R"({"name": "bagua", "algorithm": "qadam", "qadamWarmupSteps": 8})"},
    {"BaguaDecentralized", R"({"name": "bagua", "algorithm": "decentralized"})"},
    {"BaguaDecentralizedShiftOne", R"({"name": "bagua", "algorithm": "decentralized", "peerSelection": "shiftOne"})"},
    {"BaguaLowPrecisionDecentralized", R"({"name": "bagua", "algorithm": "lowPrecisionDecentralized"})"},
    {"BaguaAsync", R"({"name": "bagua", "algorithm": "async", "syncIntervalMs": 5, "asyncWarmupSteps": 2})"},
    {"BaguaGradientAllreduceByPod", R"({"name": "bagua", "hierarchical": true})", 2},
    {"BaguaByteGradByPod", R"({"name": "bagua", "algorithm": "bytegrad", "hierarchical": true})", 2},
    {"BaguaQadamByPod", R"({"name": "bagua", "algorithm": "qadam", "qadamWarmupSteps": 8, "hierarchical": true})", 2},
    {"BaguaLowPrecisionByPod", R"({"name": "bagua", "algorithm": "lowPrecisionDecentralized", "hierarchical": true})",
     2},
    {"BaguaDecentralizedByPod", R"({"name": "bagua", "algorithm": "decentralized", "hierarchical": true})", 2},
    {"Sharded", R"({"name": "sharded"})"},
    {"ShardedParameters", R"({"name": "sharded", "shardParameters": true})"},
};

/// `pods` pods that train with `strategy`, for hours unless `training` says otherwise. No step changes much: QAdam's
/// second moments, which stay as the short warm-up leaves them, would let the loss become infinite. `training`, `spec`:
/// more fields of the training and of the spec, each with a comma before it.
TestGroup group_of(const Strategy& strategy, std::int64_t pods = 2, const std::string& training = "",
                   const std::string& spec = "") {
  const std::string job = fmt::format(
      R"({{"training": {{"model": {{"name": "fashion_cnn"}}, "data": {{"format": "synthetic", "samples": 240}}, )"
      R"("batchSize": 8, "epochs": 100000, "optimizer": {{"lr": 1e-6}}, "log": {{"every": {{"steps": 5}}}}, "validateEvery": {{"epochs": 100000}}, )"
      R"("strategy": {}{}}}{}}})",
      strategy.json, training, spec);
  return {.world_size = pods * strategy.ranks_of_pod,
          .variables = {{"TRAINYARD_SPEC", job},
                        {"RANK", ""},
                        {"LOCAL_WORLD_SIZE", std::to_string(strategy.ranks_of_pod)},
                        {"TRAINYARD_HEARTBEAT_SECONDS", "3"},
                        {"OMP_NUM_THREADS", "1"},
                        {"CUDA_VISIBLE_DEVICES", "-1"}},
          .store_script = "exec " + paths::program("trainyard-store") + " \"$@\""};
}

const std::string rank_program = "exec " + paths::program("trainyard-rank");

class Strategies : public testing::TestWithParam<Strategy> {
 protected:
  static std::int64_t last_rank() { return 2 * GetParam().ranks_of_pod - 1; }

  /// Sends `signal` to the rank `victim` in the middle of the training, and returns the exit codes of the victim's
  /// launcher and of the other.
  std::pair<int, int> strike(int signal, std::int64_t victim) {
    const TestGroup group = group_of(GetParam());
    LauncherProcess zero{group, 0, rank_program, {{"NODE_RANK", "0"}}};
    LauncherProcess one{group, 1, rank_program, {{"NODE_RANK", "1"}}};
    const bool is_of_zero = victim < GetParam().ranks_of_pod;
    LauncherProcess& struck = is_of_zero ? zero : one;
    LauncherProcess& other = is_of_zero ? one : zero;
    EXPECT_TRUE(eventually([&] { return zero.has_printed("progress", 2); }));
    kill(pid_of_rank(struck, victim), signal);
    const std::pair codes{struck.wait(), other.wait()};
    EXPECT_EQ(other.termination_message().at("reason"), "PeerLost");
    EXPECT_EQ(other.termination_message().at("culprit"), victim);
    return codes;
  }
};

TEST_P(Strategies, EndTheGroupOfAKilledRank) {
  for (const std::int64_t victim : {std::int64_t{0}, last_rank()})
    EXPECT_EQ(strike(SIGKILL, victim), std::pair(137, 90));
}

TEST_P(Strategies, EndTheGroupOfARankThatStandsStillWithinTheHeartbeatsDeadline) {
  EXPECT_EQ(strike(SIGSTOP, last_rank()), std::pair(95, 90));
}

/// Stops a training of `pods` pods with SIGTERM, and trains it further by as many pods as `later` says, one number
/// after the other. That the parameters are those of a run that was never stopped is shown by
/// trainer_strategy_test.cpp.
void stop_and_train_further(const Strategy& strategy, std::int64_t pods, const std::vector<std::int64_t>& later) {
  const fakes::TemporaryFolder folder;
  const std::string checkpoint =
      fmt::format(R"(, "checkpoint": {{"uri": "{}", "every": {{"steps": 100000}}}})", folder.uri());
  const auto launch = [&](const TestGroup& group, std::int64_t pod, int attempt) {
    return std::make_unique<LauncherProcess>(
        group, pod, rank_program,
        std::map<std::string, std::string>{{"NODE_RANK", std::to_string(pod)},
                                           {"TRAINYARD_STATUS_PORT", std::to_string(launcher::free_port())},
                                           {"TRAINYARD_JOB_UID", "uid"},
                                           {"TRAINYARD_ATTEMPT", std::to_string(attempt)}});
  };
  using Launchers = std::vector<std::unique_ptr<LauncherProcess>>;
  const auto launch_all = [&](const TestGroup& group, std::int64_t count, int attempt) {
    Launchers launchers;
    for (std::int64_t pod = 0; pod < count; ++pod) launchers.push_back(launch(group, pod, attempt));
    return launchers;
  };
  std::int64_t step = 0;
  {
    const TestGroup group = group_of(strategy, pods, "", checkpoint);
    const Launchers launchers = launch_all(group, pods, 1);
    EXPECT_TRUE(eventually([&] { return launchers[0]->has_printed("progress", 2); }));
    for (const auto& launcher : launchers) launcher->send_signal(SIGTERM);
    for (const auto& launcher : launchers) EXPECT_EQ(launcher->wait(), 91) << launcher->output();
    step = launchers[0]->termination_message().at("progress").at("step");
    EXPECT_GE(step, 10);
  }
  int attempt = 2;
  for (const std::int64_t count : later) {
    const TestGroup group = group_of(strategy, count, fmt::format(R"(, "maxSteps": {})", step + 5), checkpoint);
    const Launchers launchers = launch_all(group, count, attempt);
    for (const auto& launcher : launchers) {
      EXPECT_EQ(launcher->wait(), 0) << launcher->output();
      EXPECT_EQ(launcher->termination_message().at("reason"), "Completed");
    }
    EXPECT_TRUE(launchers[0]->has_printed(fmt::format(R"("message":"resumed from a checkpoint","step":{})", step)))
        << launchers[0]->output();
    EXPECT_EQ(launchers[0]->termination_message().at("progress").at("step"), step + 5);
    step += 5;
    ++attempt;
  }
}

TEST_P(Strategies, TrainAJobFurtherThatWasStoppedByAsManyRanksByMoreAndByFewer) {
  stop_and_train_further(GetParam(), 2, {2, 4, 1});
}

/// The strategies of one rank: there is no other that could name it.
TEST(StrategiesOfOneRank, EndAsTheirRankDoesAndTrainFurtherWhenTheyWereStopped) {
  for (const Strategy& strategy :
       {Strategy{"Single", R"({"name": "single"})"}, Strategy{"Dp", R"({"name": "dp", "cpuReplicas": 2})"}}) {
    for (const auto& [signal, exit_code] : {std::pair{SIGKILL, 137}, std::pair{SIGSTOP, 95}}) {
      const TestGroup group = group_of(strategy, 1);
      LauncherProcess launcher{group, 0, rank_program, {{"NODE_RANK", "0"}}};
      EXPECT_TRUE(eventually([&] { return launcher.has_printed("progress", 2); })) << launcher.output();
      kill(pid_of_rank(launcher, 0), signal);
      EXPECT_EQ(launcher.wait(), exit_code) << strategy.what;
    }
    stop_and_train_further(strategy, 1, {1, 1});
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Strategies, testing::ValuesIn(strategies),
                         [](const auto& info) { return info.param.what; });

}  // namespace
}  // namespace trainyard
