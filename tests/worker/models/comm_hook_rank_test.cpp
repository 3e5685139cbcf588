// A program that overrides how its ranks exchange gradients, share samples or learn their numbers, trained by real
// launchers and ranks.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/paths/paths.hpp"
#include "tests/worker/launcher/launcher_process.hpp"

namespace trainyard {
namespace {

using launcher::LauncherProcess;
using launcher::TestGroup;
using testing::HasSubstr;

std::string hooked_model() {
  return paths::build("tests/worker/models/hooked_model");
}

std::string training_of(const std::string& options, const std::string& strategy = "{}", bool replaces_sampler = true) {
  return fmt::format(R"({{"training": {{"model": {{"name": "hooked_model", "options": {}}}, "maxSteps": 3, )"
                     R"("batchSize": 4, "data": {{"format": "synthetic", "samples": 24, "replaceSampler": {}}}, )"
                     R"("strategy": {}}}}})",
                     options, replaces_sampler, strategy);
}

std::map<std::string, std::string> variables_of(const std::string& training) {
  return {{"TRAINYARD_SPEC", training},
          {"OMP_NUM_THREADS", "1"},
          {"CUDA_VISIBLE_DEVICES", "-1"},
          {"TRAINYARD_COLLECTIVE_SECONDS", "24"}};
}

/// The exit code of the group, and the message of rank 0's launcher, of two ranks with the model's `options`.
std::pair<int, std::string> train(const std::string& options, const std::string& strategy = "{}",
                                  bool replaces_sampler = true) {
  const std::string training = training_of(options, strategy, replaces_sampler);
  const TestGroup group{.world_size = 2,
                        .variables = variables_of(training),
                        .store_script = "exec " + paths::program("trainyard-store") + " \"$@\""};
  const std::string program = "exec " + hooked_model();
  LauncherProcess zero{group, 0, program};
  LauncherProcess one{group, 1, program};
  constexpr int lost_peer = 90;  // The launcher whose rank heard of the other's end first.
  const int code = zero.wait(), other = one.wait();
  EXPECT_TRUE(code == other || code == lost_peer || other == lost_peer) << code << " " << other;
  return {code == lost_peer ? other : code, zero.termination_message().value("message", "")};
}

std::pair<int, std::string> train_with(const std::string& hook, const std::string& strategy = "{}") {
  return train(fmt::format(R"({{"hook": "{}"}})", hook), strategy);
}

TEST(CommHookOfAModel, DecidesWhatTheOptimizerTakes) {
  EXPECT_EQ(train_with("zeros").first, 0);
  const auto [code, message] = train_with("none");
  EXPECT_NE(code, 0);
  EXPECT_THAT(message, HasSubstr("the weight has changed"));
}

TEST(CommHookOfAModel, ThatDoesNotFitFailsTheJobOnAllRanks) {
  const auto [code, message] = train_with("doubles");
  EXPECT_EQ(code, 93);
  EXPECT_THAT(message, HasSubstr("the communication hook's result for bucket 0 has 3 elements of double on cpu"));
  const auto [refused, words] = train_with("zeros", R"({"gradientCompression": "fp16"})");
  EXPECT_EQ(refused, 93);
  EXPECT_THAT(words, HasSubstr("name ddp or ddp2, without gradientCompression"));
}

TEST(CommHookOfAModel, ThatThrowsIsTheProgramsFailureAndNoLostPeer) {
  const auto [code, message] = train_with("throws");
  EXPECT_EQ(code, 1);
  EXPECT_THAT(message, HasSubstr("the communication hook: level 9 of 4"));
}

TEST(ConfigureDdpOfAModel, DecidesHowTheStrategyIsMade) {
  const auto [code, message] = train(R"({"hook": "zeros", "keepsBuffers": true})");
  EXPECT_EQ(code, 0) << message;
}

TEST(SamplersOfAModel, OfDifferentSizesTrainWhereTheRanksJoin) {
  const std::string options = R"({"hook": "zeros", "ownSamplers": true})";
  const auto [refused, words] = train(options, "{}", /*replaces_sampler=*/false);
  EXPECT_EQ(refused, 93);
  EXPECT_THAT(words, HasSubstr("rank 0 has 8 samples an epoch; rank 1 has 16 samples an epoch. Sampler::size() must be "
                               "equal on all ranks, unless training.strategy.join is true"));
  // The third step is one for which rank 0 has no samples.
  const auto [code, message] = train(options, R"({"join": true})", /*replaces_sampler=*/false);
  EXPECT_EQ(code, 0) << message;
  EXPECT_THAT(message, HasSubstr("3 steps"));
}

TEST(SamplersOfAModel, OfRanksThatJoinEndWithTheGroupWhenOneIsKilledHavingNoSamplesOrNot) {
  std::string training = training_of(R"({"hook": "zeros", "ownSamplers": true})", R"({"join": true})", false);
  const std::string few = R"("maxSteps": 3)";
  training.replace(training.find(few), few.size(), R"("maxSteps": 1000000000, "log": {"every": {"steps": 50}})");
  for (const std::int64_t victim : {0, 1}) {  // Rank 0 has samples in half of the steps.
    const TestGroup group{.world_size = 2,
                          .variables = variables_of(training),
                          .store_script = "exec " + paths::program("trainyard-store") + " \"$@\""};
    LauncherProcess zero{group, 0, "exec " + hooked_model()}, one{group, 1, "exec " + hooked_model()};
    EXPECT_TRUE(launcher::eventually([&] { return zero.has_printed("progress", 2); })) << zero.output();
    LauncherProcess &struck = victim == 0 ? zero : one, &other = victim == 0 ? one : zero;
    kill(launcher::pid_of_rank(struck, victim), SIGKILL);
    EXPECT_EQ(struck.wait(), 137);
    EXPECT_EQ(other.wait(), 90) << other.output();
    EXPECT_EQ(other.termination_message().at("culprit"), victim);
  }
}

TEST(MainOfAProgram, SetsTheRankThatAnotherClusterManagerHasGivenIt) {
  TestGroup group{.variables = variables_of(training_of(R"({"hook": "zeros"})")), .program = hooked_model()};
  group.variables["PATH"] = std::filesystem::path{paths::program("trainyard-worker")}.parent_path().string();
  for (const char* const name : {"RANK", "WORLD_SIZE", "MASTER_ADDR"}) group.variables[name] = "";
  group.variables["OURS_RANKS"] = "2";
  LauncherProcess zero{group, 0, "", {{"OURS_RANK", "0"}}};
  LauncherProcess one{group, 1, "", {{"OURS_RANK", "1"}}};
  EXPECT_EQ(zero.wait(), 0) << zero.output();
  EXPECT_EQ(one.wait(), 0) << one.output();
}

TEST(CollectiveOfAModel, ThatOneRankAloneCallsEndsTheGroupLongBeforeItsDeadline) {
  const auto [code, message] = train(R"({"gathersAlone": true})");
  EXPECT_EQ(code, 95);
  EXPECT_THAT(message, HasSubstr("all ranks wait for each other in different collectives: rank 0 in gathering the "
                                 "ranks' values (all_gather, metrics or an agreement), rank 1 in the gradients' "
                                 "all-reduce"));
}

}  // namespace
}  // namespace trainyard
