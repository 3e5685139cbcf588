#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "api/contract.hpp"
#include "tests/fakes/free_port.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"
#include "tests/worker/fakes/rank_processes.hpp"

/// Jobs that a strategy refuses once it sees the model or the group. No launcher ends the ranks: each ends by itself.
namespace trainyard {
namespace {

using fakes::RankProcess;
using testing::HasSubstr;

struct Refusal {
  std::string strategy;
  std::string model;  ///< options.has of refused_model.
  int ranks = 2;
  std::string sentence;
  std::string training{};  ///< More fields.
};

std::vector<RankProcess> start_refused(const Refusal& refusal, const fakes::TemporaryFolder& folder) {
  RankProcess::Variables variables{
      {"WORLD_SIZE", std::to_string(refusal.ranks)},
      {"LOCAL_WORLD_SIZE", std::to_string(refusal.ranks)},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(fakes::free_port())},
      {"OMP_NUM_THREADS", "1"},
      {"CUDA_VISIBLE_DEVICES", "-1"},
      {"TRAINYARD_LOG_FORMAT", "json"},
      {"TRAINYARD_SPEC",
       fmt::format(R"({{"training": {{"model": {{"name": "refused_model", "options": {{"has": "{}"}}}}, "batchSize": 4,
                     "data": {{"format": "synthetic", "samples": 48}}, "maxSteps": 2, {}"strategy": {}}}}})",
                   refusal.model, refusal.training, refusal.strategy)}};
  std::vector<RankProcess> ranks;
  for (int rank = 0; rank < refusal.ranks; ++rank) {
    variables["RANK"] = variables["LOCAL_RANK"] = std::to_string(rank);
    ranks.emplace_back(paths::build("tests/worker/models/refused_model"), variables,
                       fmt::format("{}/rank{}.log", folder.path(), rank));
  }
  return ranks;
}

/// The log's line about the rank's end, from the reason on.
std::string end_in(const std::string& log) {
  const std::size_t begin = log.rfind(R"("message":"rank ends",)");
  return begin == std::string::npos ? log : log.substr(begin, log.find('\n', begin) - begin);
}

TEST(StrategyRefusals, EndAllRanksWithOneCodeAndOneSentence) {
  const std::vector<Refusal> refusals{
      {R"({"name": "single"})", "nothing", 2, "is single, which is one rank, but 2 ranks were started"},
      {R"({"name": "dp"})", "nothing", 2, "is dp, which is one rank, but 2 ranks were started"},
      {R"({"processGroupBackend": "nccl"})", "nothing", 2, "but this rank computes on the CPU"},
      {R"({"name": "horovod", "op": "adasum"})", "nothing", 3, "this group has 3: take 2 or 4"},
      {R"({"name": "horovod", "op": "adasum"})", "complex", 2, "adasum trains no complex numbers, which phase has"},
      {R"({"name": "bagua", "algorithm": "decentralized", "peerSelection": "shiftOne"})", "nothing", 3,
       "shiftOne pairs the ranks, and there are 3 of them"},
      {R"({"name": "bagua", "algorithm": "qadam"})", "ownOptimizer", 2, "qadam trains only with Trainyard's own adam"},
      {R"({"name": "bagua", "algorithm": "async"})", "optimizers", 2, "is async, which trains with one optimizer"},
      {R"({"name": "sharded"})", "ownOptimizer", 2, "sharded cannot train with the model's own optimizer"},
      {R"({"name": "sharded"})", "gaps", 2, "sharded cannot cut the parameter cut"},
      {R"({"name": "sharded", "shardParameters": true})", "oneMemory", 2, "cannot free the parameter tied"},
      {R"({"name": "sharded", "shardParameters": true})", "part", 2, "cannot free the parameter half"},
      {R"({"name": "ddp"})", "ownOptimizer", 2, "the model's own optimizer does not follow training.lrSchedule",
       R"("lrSchedule": {"name": "cosine"}, )"},
  };
  for (const Refusal& refusal : refusals) {
    const fakes::TemporaryFolder folder;
    auto ranks = start_refused(refusal, folder);
    std::set<std::string> ends;
    for (RankProcess& rank : ranks) {
      EXPECT_EQ(rank.wait(), contract::exit_do_not_restart) << refusal.sentence << rank.log();
      ends.insert(end_in(rank.log()));
    }
    EXPECT_EQ(ends.size(), 1U) << testing::PrintToString(ends);
    EXPECT_THAT(*ends.begin(), HasSubstr(R"("reason":"InvalidSpec")"));
    EXPECT_THAT(*ends.begin(), HasSubstr(refusal.sentence));
  }
}

TEST(StrategyRefusals, OfSparseGradientsEndAllRanksOfEachStrategy) {
  for (const std::string name : {"ddp", "sharded"}) {
    const fakes::TemporaryFolder folder;
    auto ranks = start_refused(
        {.strategy = fmt::format(R"({{"name": "{}"}})", name), .model = "sparse", .sentence = {}}, folder);
    std::set<int> codes;
    for (RankProcess& rank : ranks) {
      codes.insert(rank.wait());
      EXPECT_THAT(rank.log(), HasSubstr("sparse gradients are not reduced: give the embedding sparse(false)")) << name;
    }
    EXPECT_EQ(codes.size(), 1U) << testing::PrintToString(codes);
  }
}

}  // namespace
}  // namespace trainyard
