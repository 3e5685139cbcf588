// A rank that dies or stands still ends its group and is named, with each of the strategies that are listed here: a
// strategy decides what the other ranks wait for meanwhile.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

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
    {"DdpPowerSgd", R"({"gradientCompression": "powersgd", "powerSgd": {"startStep": 2}})"},
    {"DdpSyncBatchNorm", R"({"syncBatchNorm": true})"},
    {"Horovod", R"({"name": "horovod", "gradientCompression": "fp16"})"},
    {"HorovodAdasum", R"({"name": "horovod", "op": "adasum"})"},
    {"BaguaByteGrad", R"({"name": "bagua", "algorithm": "bytegrad"})"},
    {"BaguaQadam", R"({"name": "bagua", "algorithm": "qadam", "qadamWarmupSteps": 2})"},
    {"BaguaDecentralized", R"({"name": "bagua", "algorithm": "decentralized"})"},
    {"BaguaLowPrecisionDecentralized", R"({"name": "bagua", "algorithm": "lowPrecisionDecentralized"})"},
    {"BaguaAsync", R"({"name": "bagua", "algorithm": "async", "syncIntervalMs": 5, "asyncWarmupSteps": 2})"},
    {"BaguaByteGradByPod", R"({"name": "bagua", "algorithm": "bytegrad", "hierarchical": true})", 2},
    {"BaguaDecentralizedByPod", R"({"name": "bagua", "algorithm": "decentralized", "hierarchical": true})", 2},
    {"Sharded", R"({"name": "sharded"})"},
};

/// Two pods that train for hours with `strategy`.
TestGroup group_of(const Strategy& strategy) {
  const std::string training = fmt::format(
      R"({{"training": {{"model": {{"name": "fashion_cnn"}}, "data": {{"format": "synthetic", "samples": 240}}, )"
      R"("batchSize": 8, "epochs": 100000, "log": {{"every": {{"steps": 5}}}}, "validateEvery": {{"epochs": 100000}}, )"
      R"("strategy": {}}}}})",
      strategy.json);
  return {.world_size = 2 * strategy.ranks_of_pod,
          .variables = {{"TRAINYARD_SPEC", training},
                        {"RANK", ""},
                        {"LOCAL_WORLD_SIZE", std::to_string(strategy.ranks_of_pod)},
                        {"TRAINYARD_HEARTBEAT_SECONDS", "3"},
                        {"OMP_NUM_THREADS", "1"},
                        {"CUDA_VISIBLE_DEVICES", "-1"}},
          .store_script = "exec " + paths::program("trainyard-store") + " \"$@\""};
}

class StrategyFailures : public testing::TestWithParam<Strategy> {
 protected:
  static std::int64_t last_rank() { return 2 * GetParam().ranks_of_pod - 1; }

  /// Sends `signal` to the rank `victim` in the middle of the training, and returns the exit codes of the victim's
  /// launcher and of the other.
  std::pair<int, int> strike(int signal, std::int64_t victim) {
    const TestGroup group = group_of(GetParam());
    const std::string program = "exec " + paths::program("trainyard-rank");
    LauncherProcess zero{group, 0, program, {{"NODE_RANK", "0"}}};
    LauncherProcess one{group, 1, program, {{"NODE_RANK", "1"}}};
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

TEST_P(StrategyFailures, OfAKilledRankEndTheGroup) {
  for (const std::int64_t victim : {std::int64_t{0}, last_rank()})
    EXPECT_EQ(strike(SIGKILL, victim), std::pair(137, 90));
}

TEST_P(StrategyFailures, OfAStoppedRankEndTheGroupWithinTheHeartbeatsDeadline) {
  EXPECT_EQ(strike(SIGSTOP, last_rank()), std::pair(95, 90));
}

INSTANTIATE_TEST_SUITE_P(Table, StrategyFailures, testing::ValuesIn(strategies),
                         [](const auto& info) { return info.param.what; });

}  // namespace
}  // namespace trainyard
