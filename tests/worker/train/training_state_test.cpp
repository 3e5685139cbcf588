#include "worker/train/training_state.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "tests/worker/train/small_module.hpp"
#include "worker/strategy/model_agreement.hpp"

namespace trainyard::train {
namespace {

TEST(SeedForTraining, LetsEachRankDrawItsOwnNumbersWhichAreThoseOfTheSeed) {
  const auto drawn = [](std::int64_t seed, std::int64_t rank) {
    seed_for_training(seed, rank);
    return torch::rand({5});
  };
  const torch::Tensor first = drawn(7, 0);
  EXPECT_TRUE(torch::equal(drawn(7, 0), first));
  EXPECT_FALSE(torch::equal(drawn(7, 1), first));
  EXPECT_FALSE(torch::equal(drawn(9, 0), first));
  torch::manual_seed(7);
  EXPECT_FALSE(torch::equal(torch::rand({5}), first)) << "the numbers with which the model was made";
}

TEST(RandomState, TakesTheGeneratorBackToWhereItWasRead) {
  RandomState random{torch::kCPU};
  random.read();
  const torch::Tensor first = torch::rand({5});
  torch::manual_seed(1234);
  random.write();
  EXPECT_TRUE(torch::equal(torch::rand({5}), first));
}

TEST(MakeState, HoldsAllThatATrainingNeedsUnderUniqueNames) {
  const auto module = make_small_module(0);
  const auto optimizer = module->configure_optimizers({});
  const checkpoint::State state = make_state(*module, optimizer->state(), RandomState{torch::kCPU});
  std::set<std::string> names;
  for (const checkpoint::Entry& entry : state.entries) names.insert(entry.name);
  EXPECT_EQ(names.size(), state.entries.size());
  for (const char* name :
       {"model.hidden.weight", "model.norm.running_mean", "optimizer.exp_avg.hidden.weight", "rng.cpu"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  for (const checkpoint::Entry& entry : state.entries) EXPECT_FALSE(entry.tensor.requires_grad()) << entry.name;
}

TEST(MakeState, PlacesWhatAllRanksHaveAlikeWhereAnyRankMayWriteIt) {
  using checkpoint::Placement;
  const auto module = make_small_module(0);
  const auto optimizer = module->configure_optimizers({});
  for (const bool parameters : {false, true}) {
    for (const bool optimizers : {false, true}) {
      const checkpoint::State state = make_state(*module, optimizer->state(), RandomState{torch::kCPU},
                                                 {.parameters = parameters, .optimizer = optimizers});
      std::map<std::string, Placement> placements;
      for (const checkpoint::Entry& entry : state.entries) placements[entry.name] = entry.placement;
      EXPECT_EQ(placements.at("model.hidden.weight"), parameters ? Placement::replicated : Placement::rank0);
      EXPECT_EQ(placements.at("model.norm.running_mean"), Placement::rank0);
      EXPECT_EQ(placements.at("optimizer.exp_avg.hidden.weight"),
                optimizers ? Placement::replicated : Placement::per_rank);
      EXPECT_EQ(placements.at("rng.cpu"), Placement::per_rank);
    }
  }
}

TEST(MakeState, SaysWhatMustBeFiniteAndWhatOnlyTheOptimizersStepChanges) {
  const auto module = make_small_module(0);
  const auto optimizer = module->configure_optimizers({});
  const checkpoint::State state = make_state(*module, optimizer->state(), RandomState{torch::kCPU});
  for (const checkpoint::Entry& entry : state.entries) {
    const bool is_parameter = entry.name.starts_with("model.") && entry.tensor.is_floating_point() &&
                              !entry.name.starts_with("model.norm.running");
    EXPECT_EQ(entry.must_be_finite, is_parameter) << entry.name;
    EXPECT_EQ(entry.is_steady, is_parameter || entry.name.starts_with("optimizer.")) << entry.name;
    EXPECT_FALSE(entry.shard.has_value()) << entry.name;
  }
}

TEST(MakeState, SharesMemoryWithTheModule) {
  const auto module = make_small_module(0);
  const auto optimizer = module->configure_optimizers({});
  const checkpoint::State state = make_state(*module, optimizer->state(), RandomState{torch::kCPU});
  state.entries.front().tensor.fill_(7);
  EXPECT_TRUE(torch::equal(module->parameters().front(), torch::full_like(module->parameters().front(), 7)));
}

TEST(TrainingValues, ComeBackFromJson) {
  const TrainingValues values{
      .position = {.step = 7, .epoch = 1, .samples = 40},
      .metrics = {{"val_accuracy", 0.1}},
      .best = BestValue{.metric = "val_loss", .mode = api::BestMode::min, .value = 0.1 + 0.2},
      .plateau = {.factor = 0.1 * 0.7,
                  .best = BestValue{.metric = "m", .mode = api::BestMode::max, .value = 0.7},
                  .bad_count = 3},
      .stopping = {.best = BestValue{.metric = "s", .mode = api::BestMode::min, .value = 0.3}, .bad_count = 2},
      .owes_validation = true,
      .is_ended_by_callback = true,
      .epoch_samples = 60,
      .order_sizes = {20, 40}};
  const auto parsed = parse_training_values(nlohmann::json::parse(to_json(values).dump()));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->position, values.position);
  EXPECT_EQ(parsed->metrics, values.metrics);
  EXPECT_EQ(parsed->best, values.best);
  EXPECT_EQ(parsed->plateau, values.plateau);
  EXPECT_EQ(parsed->stopping, values.stopping);
  EXPECT_TRUE(parsed->owes_validation);
  EXPECT_TRUE(parsed->is_ended_by_callback);
  EXPECT_EQ(parsed->epoch_samples, values.epoch_samples);
  EXPECT_EQ(parsed->order_sizes, values.order_sizes);
}

TEST(TrainingValues, ComeBackWithoutABestValueWhereThereIsNone) {
  const TrainingValues values{.position = {.step = 7, .epoch = 1, .samples = 40},
                              .metrics = {},
                              .plateau = {.factor = 0.5, .best = {}, .bad_count = 1}};
  const auto parsed = parse_training_values(nlohmann::json::parse(to_json(values).dump()));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->best, std::nullopt);
  EXPECT_EQ(parsed->plateau, values.plateau);
  EXPECT_EQ(parsed->stopping, StoppingState{});
  EXPECT_FALSE(parsed->owes_validation || parsed->is_ended_by_callback);
  EXPECT_EQ(parsed->epoch_samples, std::nullopt);
}

TEST(TrainingValues, LeaveOutWhatJsonCannotHold) {
  EXPECT_EQ(to_json({.position = {}, .metrics = {{"val_loss", std::nan("")}}}).at("metrics").size(), 0U);
}

TEST(TrainingValues, AreCorruptWithoutTheirPosition) {
  for (const char* text : {"{}", "[]", R"({"step": 1, "epoch": 1, "samples": 0, "metrics": {}, "best": 5})",
                           R"({"step": 1, "epoch": 1, "samples": 0, "metrics": {}, "plateau": {"factor": 1}})",
                           R"({"step": 1, "epoch": 1, "samples": 0, "metrics": {}, "earlyStopping": {}})",
                           R"({"step": "seven", "epoch": 1, "samples": 0, "metrics": {}})"}) {
    const auto parsed = parse_training_values(nlohmann::json::parse(text));
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::corrupt);
  }
}

TEST(Fingerprint, DependsOnTheModelsShapeAndTheDataButNotOnWeights) {
  const data::ImageDataset data = make_small_dataset(100, 0);
  const auto of = [](const std::string& name, std::int64_t seed, const Dataset& dataset) {
    return fingerprint(name, *make_small_module(seed), dataset, {});
  };
  const std::string expected = of("small", 0, data);
  EXPECT_EQ(of("small", 1, data), expected);
  EXPECT_NE(of("other", 0, data), expected);
  EXPECT_NE(of("small", 0, make_small_dataset(101, 0)), expected);
  EXPECT_NE(of("small", 0, make_small_dataset(100, 1)), expected);
}

TEST(Fingerprint, DependsOnTheNameTheTypeAndTheShapeOfEachTensor) {
  class OneTensor final : public Module {
   public:
    OneTensor(const std::string& name, const torch::Tensor& tensor, bool is_buffer) {
      is_buffer ? register_buffer(name, tensor) : register_parameter(name, tensor);
    }
    [[nodiscard]] StepOutput training_step(const Batch& /*batch*/, std::int64_t /*batch_index*/) override { return {}; }
  };
  const data::ImageDataset data = make_small_dataset(10, 0);
  const auto of = [&](const std::string& name, const torch::Tensor& tensor, bool is_buffer = false) {
    return fingerprint("net", OneTensor{name, tensor, is_buffer}, data, {});
  };
  const std::string expected = of("weight", torch::zeros({2, 3}));
  EXPECT_EQ(of("weight", torch::ones({2, 3})), expected);
  for (const bool is_buffer : {false, true}) {
    std::set<std::string> all;
    all.insert(of("weight", torch::zeros({2, 3}), is_buffer));
    all.insert(of("weight", torch::zeros({3, 2}), is_buffer));
    all.insert(of("weight", torch::zeros({6}), is_buffer));
    all.insert(of("weight", torch::zeros({2, 3}, torch::kDouble), is_buffer));
    all.insert(of("heavy", torch::zeros({2, 3}), is_buffer));
    EXPECT_EQ(all.size(), 5U) << "buffer: " << is_buffer;
  }
}

/// The fingerprint in checkpoints from before data sets had ids. A run must still accept them as its own.
TEST(Fingerprint, OfBuiltInDataIsWhatItAlwaysWas) {
  const data::ImageDataset data = make_small_dataset(100, 0);
  const Batch first = data.gather(torch::arange(64));
  const std::uint64_t checksum = strategy::checksum({{"inputs", first.inputs}, {"targets", first.targets}});
  EXPECT_TRUE(fingerprint("small", *make_small_module(0), data, {}).ends_with(fmt::format("/100-{:016x}", checksum)));
}

/// Gives other samples each time, and has no id.
class Augmented final : public Dataset {
 public:
  explicit Augmented(std::string id) : id_{std::move(id)} {}
  [[nodiscard]] std::int64_t size() const override { return 10; }
  [[nodiscard]] Batch gather(const torch::Tensor& ids) const override {
    return {.inputs = torch::rand({ids.size(0), 3}), .targets = {}, .ids = ids};
  }
  [[nodiscard]] std::string id() const override { return id_; }

 private:
  std::string id_;
};

TEST(Fingerprint, OfDataOfOnesOwnIsItsIdElseWhereItLies) {
  const auto of = [](const std::string& id, const api::DataSpec& data) {
    return fingerprint("small", *make_small_module(0), Augmented{id}, data);
  };
  EXPECT_EQ(of("", {}), of("", {}));
  EXPECT_TRUE(of("flowers v2", {}).ends_with("/10-flowers v2"));
  EXPECT_TRUE(of("", {.format = api::DataFormat::idx, .path = "/data/flowers"}).ends_with("/10-idx /data/flowers"));
  EXPECT_NE(of("", {.path = "/data/a"}), of("", {.path = "/data/b"}));
  EXPECT_NE(of("", {.uri = "s3://data/a"}), of("", {.uri = "s3://data/b"}));
  EXPECT_EQ(of("flowers", {.uri = "s3://data/a"}), of("flowers", {.uri = "s3://data/b"})) << "the id is enough";
}

TEST(Fingerprint, HasTheSizeOfASamplerAndWhetherRanksHaveOrdersOfTheirOwn) {
  const auto of = [](bool is_shared, std::optional<std::int64_t> sampler_size) {
    const auto sampler = sampler_size ? make_sequential_sampler(*sampler_size) : nullptr;
    return fingerprint("small", *make_small_module(0), Augmented{"flowers"}, {.replace_sampler = is_shared},
                       sampler.get());
  };
  EXPECT_TRUE(of(true, {}).ends_with("/10-flowers")) << "as before there were samplers";
  EXPECT_TRUE(of(true, 7).ends_with("/10-flowers/7 an epoch"));
  EXPECT_TRUE(of(false, {}).ends_with("/10-flowers/own orders"));
  EXPECT_EQ(of(false, 7), of(false, 5)) << "the size of a rank's own may depend on the number of ranks";
}

class NamedStreams final : public IterableDataset {
 public:
  explicit NamedStreams(std::string id) : id_{std::move(id)} {}
  [[nodiscard]] std::unique_ptr<SampleStream> stream(std::int64_t /*epoch*/) const override { return nullptr; }
  [[nodiscard]] std::string id() const override { return id_; }

 private:
  std::string id_;
};

TEST(Fingerprint, OfDataWithoutASizeSaysSo) {
  const auto of = [](Datasets datasets) {
    return fingerprint("small", *make_small_module(0), datasets, {.path = "/data/a"});
  };
  EXPECT_TRUE(of({.train = nullptr, .iterable_train = std::make_unique<NamedStreams>("flowers")})
                  .ends_with("/streams-flowers"));
  EXPECT_TRUE(of({.train = nullptr, .iterable_train = std::make_unique<NamedStreams>("")})
                  .ends_with("/streams-synthetic /data/a"));
  EXPECT_TRUE(of({.train = std::make_unique<Augmented>("flowers"), .sampler = make_sequential_sampler(7)})
                  .ends_with("/10-flowers/7 an epoch"));
}

}  // namespace
}  // namespace trainyard::train
