// A model with process sets, trained by real launchers and ranks.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"
#include "tests/worker/launcher/launcher_process.hpp"

namespace trainyard {
namespace {

using launcher::LauncherProcess;
using launcher::TestGroup;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

/// How the launchers of three ranks have ended.
struct Ended {
  std::vector<int> codes;
  std::vector<nlohmann::json> messages;
  std::string output;  // of rank 0's launcher

  [[nodiscard]] std::string message(std::size_t rank) const { return messages[rank].value("message", ""); }
};

/// Three ranks with the model's `model` and more fields of the training and of the spec.
Ended run(const std::string& model, const std::string& training, const std::string& spec = "") {
  const std::string job =
      fmt::format(R"({{"training": {{"model": {{"name": "process_set_model", {}}}, "batchSize": 4, )"
                  R"("data": {{"format": "synthetic", "samples": 24}}, {}}}{}}})",
                  model, training, spec);
  const TestGroup group{.world_size = 3,
                        .variables = {{"TRAINYARD_SPEC", job},
                                      {"OMP_NUM_THREADS", "1"},
                                      {"CUDA_VISIBLE_DEVICES", "-1"},
                                      {"TRAINYARD_COLLECTIVE_SECONDS", "300"}},
                        .store_script = "exec " + paths::program("trainyard-store") + " \"$@\""};
  std::vector<std::unique_ptr<LauncherProcess>> launchers;
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    launchers.push_back(std::make_unique<LauncherProcess>(
        group, rank, "exec " + paths::build("tests/worker/models/process_set_model")));
  }
  Ended ended;
  for (const auto& each : launchers) ended.codes.push_back(each->wait());
  for (const auto& each : launchers) ended.messages.push_back(each->termination_message());
  ended.output = launchers.front()->output();
  return ended;
}

Ended train_case(const std::string& name) {
  return run(fmt::format(R"("options": {{"case": "{}"}})", name), R"("maxSteps": 3)");
}

TEST(ProcessSetsOfAModel, ExchangeAmongTheirRanksInTrainingAndInJobsThatDoNotTrain) {
  const fakes::TemporaryFolder folder;
  const Ended trained =
      run(R"("options": {})", R"("maxSteps": 2, "log": {"every": {"steps": 1}}, "validateEvery": {"epochs": 1})",
          fmt::format(R"(, "checkpoint": {{"uri": "file://{}", "every": {{"steps": 2}}}})", folder.path()));
  EXPECT_THAT(trained.codes, Each(0)) << trained.output;
  // The mean over the members, of 1 and 1.25.
  EXPECT_THAT(trained.output, HasSubstr("\"of_ends\":1.125")) << trained.output;
  const Ended validated = run(fmt::format(R"("weights": "file://{}")", folder.path()), R"("task": "validate")");
  EXPECT_THAT(validated.codes, Each(0)) << validated.output;
  // Rank 0 has two of the 4 samples, and rank 2 has one.
  EXPECT_THAT(validated.output, HasSubstr("\"val_of_ends\":1.0833"));
}

TEST(ProcessSetsOfAModel, ThatDifferFailTheJobOnAllRanksAlike) {
  const Ended ended = train_case("sets differ");
  const std::string words =
      R"(configure_process_sets() must return the same sets on all ranks: of the sets by name, number 2 is )"
      R"("middle": [1] on rank 0, and "middle": [0] on rank 2)";
  for (std::size_t rank = 0; rank < 3; ++rank) {
    if (ended.codes[rank] != 90) {  // 90: its rank heard of another's end first.
      EXPECT_EQ(ended.codes[rank], 93);
    }
    EXPECT_THAT(ended.message(rank), HasSubstr(words));
  }
}

TEST(ProcessSetsOfAModel, EndSoonAndNameTheMemberThatIsLost) {
  const auto start = std::chrono::steady_clock::now();
  const Ended ended = train_case("dies");
  EXPECT_THAT(ended.codes, ElementsAre(90, 90, 137)) << ended.output;
  for (const std::size_t rank : {0, 1}) {
    EXPECT_EQ(ended.messages[rank].value("reason", ""), "PeerLost");
    EXPECT_EQ(ended.messages[rank].value("culprit", -1), 2);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds{120})
      << "the collective's deadline is 300 s";
}

}  // namespace
}  // namespace trainyard
