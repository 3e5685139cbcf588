// Trainings that begin with the weights of training.model.weights.
#include "worker/train/initial_weights.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <filesystem>

#include "api/contract.hpp"
#include "checkpoint/format/safetensors.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/train/training_run.hpp"

namespace trainyard::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;

NamedTensors state_dict(const Module& module) {
  NamedTensors state = named_parameters(module);
  for (const auto& buffer : named_buffers(module)) state.push_back(buffer);
  return state;
}

std::string safetensors_of(const NamedTensors& state) {
  std::vector<checkpoint::SafetensorsTensor> tensors;
  std::string content;
  for (const auto& [name, tensor] : state) {
    tensors.push_back({.name = name,
                       .dtype = tensor.scalar_type() == torch::kInt64 ? "I64" : "F32",
                       .shape = tensor.sizes().vec(),
                       .bytes = tensor.nbytes()});
    const torch::Tensor bytes = tensor.detach().contiguous();
    content.append(static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes());
  }
  return checkpoint::safetensors_header(tensors, {}) + content;
}

class InitialWeights : public testing::Test {
 protected:
  const fakes::TemporaryFolder folder;
  const std::string uri = folder.uri() + "/w.safetensors";
  /// The run whose weights are loaded.
  const std::shared_ptr<SmallModule> other = make_small_module(1234);

  void write_weights() { folder.write("w.safetensors", safetensors_of(state_dict(*other))); }

  /// The parameters at the first step, by rank.
  static std::vector<std::uint64_t> run_to_first_step(TrainingRun& run) {
    std::vector<std::uint64_t> checksums(run.ranks.size());
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
      SmallModule& module = *run.ranks[rank].module;
      module.on_step = [&module, &checksum = checksums[rank], is_first = true](std::int64_t) mutable {
        if (std::exchange(is_first, false)) checksum = strategy::checksum(state_dict(module));
      };
    }
    run.run();
    return checksums;
  }
};

TEST_F(InitialWeights, AreWhatEveryRankBeginsWith) {
  write_weights();
  const std::uint64_t expected = strategy::checksum(state_dict(*other));
  for (const std::int64_t world_size : {1, 3}) {
    TrainingRun run{world_size};
    run.training.max_steps = 2;
    run.training.model.weights = uri;
    EXPECT_EQ(run_to_first_step(run), std::vector<std::uint64_t>(static_cast<std::size_t>(world_size), expected));
    for (const auto& rank : run.ranks) EXPECT_EQ(rank.end.reason, "Completed") << rank.end.message;
  }
}

TEST_F(InitialWeights, AreWhatTheMovingAverageBeginsWith) {
  write_weights();
  TrainingRun run{1};
  run.training.max_steps = 1;
  run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 1e-9};
  run.training.ema = api::EmaSpec{.decay = 0.9};
  run.training.model.weights = uri;
  SmallModule& module = *run.ranks[0].module;
  bool is_validated = false;
  module.on_validation = [&](std::int64_t) {
    is_validated = true;
    const NamedTensors averages = named_parameters(module), begun_with = named_parameters(*other);
    for (std::size_t index = 0; index < averages.size(); ++index)
      EXPECT_TRUE(torch::allclose(averages[index].second, begun_with[index].second, 1e-4, 1e-6))
          << averages[index].first;
  };
  run.run();
  EXPECT_EQ(run.ranks[0].end.reason, "Completed") << run.ranks[0].end.message;
  EXPECT_TRUE(is_validated);
}

TEST_F(InitialWeights, MayBeAnotherJobsCheckpoint) {
  TrainingRun earlier;
  earlier.training.max_steps = 3;
  earlier.checkpoint.emplace();
  earlier.checkpoint->uri = folder.uri() + "/earlier";
  earlier.run();
  TrainingRun run{3};
  run.training.max_steps = 2;
  run.training.model.weights = earlier.checkpoint->uri;
  EXPECT_EQ(run_to_first_step(run), std::vector<std::uint64_t>(3, earlier.ranks[0].checksum));
  EXPECT_EQ(run.ranks[0].link->reports().back().step, 2) << "steps are counted from the first";
}

TEST_F(InitialWeights, AreNotReadOnceThereIsACheckpoint) {
  write_weights();
  const auto run_to = [&](std::int64_t steps, std::int64_t attempt) {
    TrainingRun run;
    run.training.max_steps = steps;
    run.training.model.weights = uri;
    run.checkpoint.emplace();
    run.checkpoint->uri = folder.uri() + "/checkpoints";
    run.attempt = attempt;
    run.run();
    EXPECT_EQ(run.ranks[0].end.reason, "Completed") << run.ranks[0].end.message;
    return run.ranks[0].checksum;
  };
  const std::uint64_t expected = [&] {
    TrainingRun whole;
    whole.training.max_steps = 6;
    whole.training.model.weights = uri;
    whole.run();
    return whole.ranks[0].checksum;
  }();
  run_to(3, 1);
  std::filesystem::remove(folder.file("w.safetensors"));
  EXPECT_EQ(run_to(6, 2), expected);
}

TEST_F(InitialWeights, ThatDoNotFitEndAllRanksForGood) {
  NamedTensors state = state_dict(*other);
  state.emplace_back("extra", torch::zeros({2}));
  state.front().second = torch::zeros({3});
  folder.write("w.safetensors", safetensors_of(state));
  TrainingRun run;
  run.training.model.weights = uri;
  run.run();
  for (const auto& rank : run.ranks) {
    EXPECT_EQ(rank.end.exit_code, contract::exit_do_not_restart);
    EXPECT_EQ(rank.end.reason, "InvalidData");
    EXPECT_THAT(rank.end.message,
                AllOf(HasSubstr("training.model.weights: " + uri + " does not fit this model: "),
                      HasSubstr("is F32 [3] in it, and F32 ["), HasSubstr("model.extra is only in it")));
  }
}

TEST_F(InitialWeights, ThatAreNotThereEndAllRanksForGood) {
  TrainingRun run;
  run.training.model.weights = uri;
  run.run();
  for (const auto& rank : run.ranks) {
    EXPECT_EQ(rank.end.exit_code, contract::exit_do_not_restart);
    EXPECT_THAT(rank.end.message, HasSubstr("w.safetensors: No such file"));
  }
}

/// One weight under two names, as embeddings that are tied to the output.
class TiedModule final : public Module {
 public:
  TiedModule() {
    register_module("out", out_);
    register_module("again", again_);
    again_->register_parameter("weight", out_->weight);
  }
  [[nodiscard]] StepOutput training_step(const Batch& batch, std::int64_t) override {
    return out_(batch.inputs.flatten(1)).mean();
  }

 private:
  struct Holder : torch::nn::Module {};
  torch::nn::Linear out_{4, 2};
  std::shared_ptr<Holder> again_ = std::make_shared<Holder>();
};

TEST_F(InitialWeights, MayNameATiedTensorTwice) {
  TiedModule module;
  EXPECT_THAT(further_names(module), testing::ElementsAre("again.weight"));
  NamedTensors state{{"out.weight", torch::full({2, 4}, 7.0)},
                     {"out.bias", torch::zeros({2})},
                     {"again.weight", torch::full({2, 4}, 7.0)}};
  folder.write("w.safetensors", safetensors_of(state));
  const auto optimizer = module.configure_optimizers({});
  const checkpoint::State all = make_state(module, optimizer->state(), RandomState{torch::kCPU});
  checkpoint::SingleCommunicator single;
  const fakes::FakeClock clock;
  const auto loaded = load_initial_weights({.uri = uri, .sha256 = {}, .s3 = {}}, module, all, single, {}, clock);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_TRUE(torch::equal(module.parameters().front().detach(), torch::full({2, 4}, 7.0)));
}

}  // namespace
}  // namespace trainyard::train
