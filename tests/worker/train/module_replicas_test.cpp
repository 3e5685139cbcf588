#include "worker/train/module_replicas.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/group/communicator.hpp"
#include "include/trainyard/optimizer.hpp"
#include "include/trainyard/options.hpp"
#include "tests/worker/train/small_module.hpp"
#include "worker/observe/metric_sinks.hpp"
#include "worker/train/named_tensors.hpp"

namespace trainyard::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Two layers. `step` gives the output of a training step; not set: the mean of squares of forward().
class TwoLayers final : public Module {
 public:
  TwoLayers() {
    register_module("hidden", hidden);
    register_module("out", out);
    register_buffer("seen", seen);
  }
  [[nodiscard]] StepOutput training_step(const Batch& batch, std::int64_t /*batch_index*/) override {
    return step ? step(*this, batch) : forward(batch.inputs).square().mean();
  }
  [[nodiscard]] torch::Tensor training_step_end(StepOutput output) override {
    return step_end ? step_end(output) : Module::training_step_end(std::move(output));
  }
  void validation_step(const Batch& batch, std::int64_t /*batch_index*/) override {
    log("val_loss", forward(batch.inputs).square().mean());
  }
  [[nodiscard]] std::map<std::string, torch::Tensor> predict_step(const Batch& batch,
                                                                  std::int64_t /*batch_index*/) override {
    return {{"outputs", forward(batch.inputs)}};
  }
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& inputs) { return out(torch::tanh(hidden(inputs))); }
  using Module::log;
  using Module::optimizer_turn;

  torch::nn::Linear hidden{3, 4};
  torch::nn::Linear out{4, 2};
  torch::Tensor seen = torch::zeros({1});
  std::function<StepOutput(TwoLayers&, const Batch&)> step;
  std::function<torch::Tensor(const StepOutput&)> step_end;
};

Batch a_batch(std::int64_t samples) {
  return {.inputs = torch::sin(torch::arange(samples * 3, torch::kFloat)).view({samples, 3}),
          .targets = {},
          .ids = torch::arange(samples)};
}

/// A module and two replicas of it, which begin with other values.
struct Three {
  explicit Three(const ReplicaOptions& options = {}) {
    for (int count = 0; count < 2; ++count) {
      others.push_back(std::make_shared<TwoLayers>());
      list.push_back({.module = others.back(), .device = torch::kCPU});
    }
    replicas.emplace(*first, torch::kCPU, list, options);
  }
  void set_step(const std::function<StepOutput(TwoLayers&, const Batch&)>& step) {
    first->step = step;
    for (const auto& other : others) other->step = step;
  }
  /// The loss of a training step, after training_step_end.
  torch::Tensor loss_of(const Batch& batch) { return first->training_step_end(replicas->training_step(batch, 0)); }

  std::shared_ptr<TwoLayers> first = std::make_shared<TwoLayers>();
  std::vector<std::shared_ptr<TwoLayers>> others;
  std::vector<FurtherReplica> list;
  std::optional<ModuleReplicas> replicas;
};

std::vector<torch::Tensor> gradients_of(Module& module, const torch::Tensor& loss) {
  for (torch::Tensor& parameter : module.parameters()) parameter.mutable_grad().reset();
  loss.backward();
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : module.parameters()) gradients.push_back(parameter.grad().clone());
  return gradients;
}

void expect_close(const std::vector<torch::Tensor>& some, const std::vector<torch::Tensor>& others) {
  ASSERT_EQ(some.size(), others.size());
  for (std::size_t index = 0; index < some.size(); ++index)
    EXPECT_TRUE(torch::allclose(some[index], others[index], 1e-5, 1e-7)) << index;
}

TEST(ModuleReplicas, GiveTheLossAndTheGradientsOfTheWholeBatch) {
  for (const bool has_threads : {false, true}) {
    for (const std::int64_t samples : {12, 10, 7, 4, 2, 1}) {
      Three three{{.has_threads = has_threads}};
      const Batch batch = a_batch(samples);
      const torch::Tensor whole = three.first->training_step(batch, 0).loss;
      const auto expected = gradients_of(*three.first, whole);
      const torch::Tensor loss = three.loss_of(batch);
      EXPECT_NEAR(loss.item<double>(), whole.item<double>(), 1e-6) << samples;
      expect_close(gradients_of(*three.first, loss), expected);
    }
  }
}

TEST(ModuleReplicas, FollowTheValuesOfTheFirstAndGiveAllGradientsOfSeveralBatches) {
  Three three;
  const Batch batch = a_batch(9);
  for (int step = 0; step < 3; ++step) {
    const auto expected = gradients_of(*three.first, 2 * three.first->training_step(batch, 0).loss);
    for (torch::Tensor& parameter : three.first->parameters()) parameter.mutable_grad().reset();
    for (int accumulated = 0; accumulated < 2; ++accumulated) three.loss_of(batch).backward();
    std::vector<torch::Tensor> gradients;
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : three.first->parameters()) {
      gradients.push_back(parameter.grad().clone());
      parameter.sub_(parameter.grad());
    }
    expect_close(gradients, expected);
  }
}

/// The loss of a batch in which each sample is told from all others (SimCLR, Chen et al. 2020).
torch::Tensor contrastive(const torch::Tensor& features) {
  const torch::Tensor unit = features / features.norm(2, {1}, /*keepdim=*/true);
  return torch::cross_entropy_loss(torch::matmul(unit, unit.t()) * 5, torch::arange(features.size(0)));
}

TEST(ModuleReplicas, LetTheEndOfAStepComputeALossOverTheWholeBatch) {
  Three three;
  three.set_step([](TwoLayers& module, const Batch& batch) {
    StepOutput output;
    output.values["features"] = module.forward(batch.inputs);
    output.values["part"] = torch::scalar_tensor(static_cast<double>(batch.size()));
    return output;
  });
  three.first->step_end = [](const StepOutput& output) {
    EXPECT_FALSE(output.loss.defined());
    EXPECT_TRUE(torch::equal(output.values.at("part"), torch::tensor({4.0, 4.0, 2.0})));
    return contrastive(output.values.at("features"));
  };
  const Batch batch = a_batch(10);
  const auto expected = gradients_of(*three.first, contrastive(three.first->forward(batch.inputs)));
  expect_close(gradients_of(*three.first, three.loss_of(batch)), expected);
}

TEST(ModuleReplicas, PutScalarsInATensorAlsoWhereABatchHasOnePart) {
  Three three;
  three.set_step([](TwoLayers&, const Batch&) {
    StepOutput output;
    output.values["one"] = torch::ones({});
    return output;
  });
  for (const std::int64_t samples : {1, 2, 6}) {
    const StepOutput whole = three.replicas->training_step(a_batch(samples), 0);
    EXPECT_EQ(whole.values.at("one").sizes(), torch::IntArrayRef({std::min<std::int64_t>(samples, 3)}));
  }
}

TEST(ModuleReplicas, ThrowWhatTheFirstReplicaInOrderThrowsOnceAllHaveEnded) {
  for (const bool has_threads : {false, true}) {
    Three three{{.has_threads = has_threads}};
    std::atomic<int> ended = 0;
    three.set_step([&](TwoLayers& module, const Batch&) -> StepOutput {
      if (&module == three.others[0].get()) std::this_thread::sleep_for(std::chrono::milliseconds{20});
      ++ended;
      if (&module == three.first.get()) return torch::zeros({});
      throw InvalidJob{&module == three.others[0].get() ? "the second" : "the third"};
    });
    EXPECT_THAT([&] { (void)three.loss_of(a_batch(6)); }, ThrowsMessage<InvalidJob>("the second"));
    EXPECT_EQ(ended, 3);
  }
}

TEST(ModuleReplicas, RefuseOutputsThatAreNotAlike) {
  struct Row {
    const char* sentence;
    std::function<StepOutput(bool is_first)> output;
    const char* message;
  };
  const auto values = [](std::map<std::string, torch::Tensor> all) {
    StepOutput output;
    output.values = std::move(all);
    return output;
  };
  const Row rows[] = {
      {"a loss in one", [](bool is_first) { return is_first ? StepOutput{torch::zeros({})} : StepOutput{}; },
       "1 of 3 parts of the batch have a loss"},
      {"a loss in two", [](bool is_first) { return is_first ? StepOutput{} : StepOutput{torch::zeros({})}; },
       "2 of 3 parts of the batch have a loss"},
      {"a value in one",
       [&](bool is_first) {
         return is_first ? values({{"a", torch::zeros({1})}}) : values({});
       },
       "one has no value 'a'"},
      {"a value in two",
       [&](bool is_first) {
         return is_first ? values({}) : values({{"a", torch::zeros({1})}});
       },
       "one has no value 'a'"},
      {"a scalar in one",
       [&](bool is_first) {
         return values({{"a", is_first ? torch::zeros({}) : torch::zeros({1})}});
       },
       "'a' has 0 dimensions in one, 1 in another"},
  };
  for (const Row& row : rows) {
    Three three;
    three.set_step([&](TwoLayers& module, const Batch&) { return row.output(&module == three.first.get()); });
    EXPECT_THAT([&] { (void)three.replicas->training_step(a_batch(6), 0); },
                ThrowsMessage<std::invalid_argument>(HasSubstr(row.message)))
        << row.sentence;
  }
}

TEST(ModuleReplicas, RefuseALossThatIsNoScalar) {
  Three three;
  three.set_step([](TwoLayers&, const Batch& batch) { return StepOutput{torch::zeros({batch.size()})}; });
  EXPECT_THAT([&] { (void)three.loss_of(a_batch(6)); }, ThrowsMessage<c10::Error>(HasSubstr("a loss of 2 numbers")));
}

TEST(ModuleReplicas, RefuseInstancesThatAreNotAlike) {
  class Wider final : public Module {
   public:
    explicit Wider(bool has_more) {
      register_module("hidden", torch::nn::Linear{3, 4});
      register_module("out", torch::nn::Linear{4, has_more ? 2 : 5});
      register_buffer("seen", torch::zeros({1}));
      if (has_more) register_parameter("more", torch::zeros({1}));
    }
    [[nodiscard]] StepOutput training_step(const Batch&, std::int64_t) override { return {}; }
  };
  TwoLayers first;
  const auto make = [&](bool has_more) {
    ModuleReplicas{first, torch::kCPU, {{.module = std::make_shared<Wider>(has_more)}}, {}};
  };
  EXPECT_THAT(
      [&] { make(false); },
      ThrowsMessage<InvalidJob>(HasSubstr("one has out.weight Float [2, 4], the other out.weight Float [5, 4]")));
  EXPECT_THAT([&] { make(true); },
              ThrowsMessage<InvalidJob>(HasSubstr("one has hidden.weight Float [4, 3], the other more Float [1]")));
}

TEST(ModuleReplicas, RefuseInstancesWithOtherPartsAndBuffersThatShareMemory) {
  class Parts final : public Module {
   public:
    explicit Parts(std::int64_t count, bool expands = false) {
      for (std::int64_t part = 0; part < count; ++part)
        register_module(fmt::format("drop{}", part), torch::nn::Dropout{0.5});
      if (expands) register_buffer("ones", torch::ones({1}).expand({3}));
    }
    [[nodiscard]] StepOutput training_step(const Batch&, std::int64_t) override { return {}; }
  };
  const auto make = [](Parts first, const std::shared_ptr<Parts>& other) {
    ModuleReplicas{first, torch::kCPU, {{.module = other}}, {}};
  };
  EXPECT_THAT([&] { make(Parts{2}, std::make_shared<Parts>(3)); },
              ThrowsMessage<InvalidJob>(HasSubstr("one has 2 submodules, the other 3")));
  EXPECT_THAT(
      [&] {
        make(Parts{2, true}, std::make_shared<Parts>(2, true));
      },
      ThrowsMessage<InvalidJob>(HasSubstr("cannot copy ones to other instances of the model")));
}

TEST(ModuleReplicas, LogMetricsOfTheirPartsByTheirSizesAndInTheirOrder) {
  struct Sink final : observe::MetricSink {
    void set_batch_size(std::int64_t samples) override { size = samples; }
    void log(std::string_view name, const torch::Tensor& value, const LogOptions& options) override {
      seen.push_back(fmt::format("{} {} of {}{}", name, value.item<double>(), size,
                                 options.reduce == Reduce::sum ? " summed" : ""));
    }
    std::int64_t size = 0;
    std::vector<std::string> seen;
  };
  for (const bool has_threads : {false, true}) {
    Three three{{.has_threads = has_threads}};
    Sink sink;
    three.first->set_metric_sink(&sink);
    three.set_step([](TwoLayers& module, const Batch& batch) {
      module.log("first", batch.ids[0], {.reduce = Reduce::sum});
      return StepOutput{torch::zeros({})};
    });
    (void)three.loss_of(a_batch(7));
    EXPECT_THAT(sink.seen, ElementsAre("first 0 of 3 summed", "first 3 of 3 summed", "first 6 of 1 summed"));
    three.first->log("whole", 1.0);
    EXPECT_EQ(sink.seen.back(), "whole 1 of 7");
    (void)three.loss_of(a_batch(1));
    EXPECT_EQ(sink.seen.back(), "first 0 of 1 summed") << "replicas without samples log nothing again";
    EXPECT_EQ(sink.seen.size(), 5U);
  }
}

TEST(ModuleReplicas, GetTheFirstsBuffersAndModesBeforeEachBatch) {
  Three three;
  three.set_step([](TwoLayers& module, const Batch& batch) {
    module.seen += static_cast<double>(batch.size());
    return StepOutput{module.seen.sum() * module.out->weight.sum()};
  });
  three.first->eval();
  three.first->out->train();
  for (int batch = 1; batch <= 2; ++batch) {
    (void)three.loss_of(a_batch(7));
    EXPECT_EQ(three.first->seen.item<double>(), 3 * batch);
    EXPECT_EQ(three.others[0]->seen.item<double>(), 3 * (batch - 1) + 3);
    EXPECT_EQ(three.others[1]->seen.item<double>(), 3 * (batch - 1) + 1) << "what a replica adds is lost";
  }
  for (const auto& other : three.others) {
    EXPECT_FALSE(other->is_training());
    EXPECT_FALSE(other->hidden->is_training());
    EXPECT_TRUE(other->out->is_training());
  }
}

TEST(ModuleReplicas, KnowTheFactsOfTheTrainingAndCannotGather) {
  checkpoint::SingleCommunicator alone;
  Three three;
  RankContext context{{.process_group = {}, .communicator = alone, .wait = {}, .device = torch::kCPU}};
  three.replicas->set_rank_context(&context);
  EXPECT_EQ(three.first->global_step(), 0);
  EXPECT_THROW((void)three.others[0]->global_step(), std::logic_error) << "a replica knows them in its steps";
  context.set(7, 2);
  std::vector<std::string> turns;
  three.set_step([&](TwoLayers& module, const Batch&) {
    EXPECT_EQ(module.global_step(), 7);
    EXPECT_EQ(module.current_epoch(), 2);
    EXPECT_EQ(module.world_size(), 1);
    EXPECT_TRUE(module.device().is_cpu());
    turns.push_back(module.optimizer_turn());
    EXPECT_THAT([&] { (void)module.all_gather(torch::zeros({1})); },
                ThrowsMessage<std::logic_error>(HasSubstr("gather in training_step_end()")));
    return StepOutput{torch::zeros({})};
  });
  (void)three.replicas->training_step(a_batch(6), 0, {.name = "generator"});
  EXPECT_THAT(turns, ElementsAre("generator", "generator", "generator"));
  EXPECT_EQ(three.first->all_gather(torch::ones({2})).numel(), 2) << "outside of the replicas' steps";
  three.replicas->set_rank_context(nullptr);
  EXPECT_THROW((void)three.others[0]->global_step(), std::logic_error);
}

TEST(ModuleReplicas, ComputeInTheArithmeticOfTheCaller) {
  // Not what autocast begins with in a thread, which is bfloat16.
  const NumberFormat half{.autocast = torch::kHalf};
  for (const bool has_threads : {false, true}) {
    Three three{{.format = half, .has_threads = has_threads}};
    std::vector<torch::ScalarType> types(3);
    std::vector<bool> has_history(3);
    three.set_step([&](TwoLayers& module, const Batch& batch) {
      const std::size_t place = static_cast<std::size_t>(batch.ids[0].item<std::int64_t>()) / 2;
      const torch::Tensor made = module.forward(batch.inputs);
      types[place] = made.scalar_type();
      has_history[place] = made.requires_grad();
      return StepOutput{made.mean()};
    });
    {
      const Autocast autocast{half, torch::kCPU};
      (void)three.loss_of(a_batch(6));
    }
    EXPECT_THAT(types, ElementsAre(torch::kHalf, torch::kHalf, torch::kHalf));
    EXPECT_THAT(has_history, ElementsAre(true, true, true));
    const torch::NoGradGuard no_grad;
    (void)three.loss_of(a_batch(6));
    EXPECT_THAT(has_history, ElementsAre(false, false, false));
  }
}

TEST(ModuleReplicas, ComputeNoGradientsOfWhatIsFrozen) {
  Three three;
  three.set_step([](TwoLayers& module, const Batch& batch) {
    const FrozenParameters frozen{module.hidden->parameters()};
    return StepOutput{module.forward(batch.inputs).square().mean()};
  });
  for (int step = 0; step < 2; ++step) {
    three.loss_of(a_batch(6)).backward();
    EXPECT_FALSE(three.first->hidden->weight.grad().defined());
    EXPECT_TRUE(three.first->out->weight.grad().defined());
    for (const auto& other : three.others) EXPECT_TRUE(other->hidden->weight.requires_grad()) << "only in the step";
  }
  TwoLayers first;
  first.hidden->weight.set_requires_grad(false);
  const auto other = std::make_shared<TwoLayers>();
  ModuleReplicas replicas{first, torch::kCPU, {{.module = other}}, {}};
  EXPECT_FALSE(other->hidden->weight.requires_grad());
  replicas.training_step(a_batch(6), 0).loss.backward();
  EXPECT_FALSE(first.hidden->weight.grad().defined());
}

TEST(ModuleReplicas, RefuseABackwardPassThroughParametersThatHaveChangedSince) {
  Three three;
  const torch::Tensor old = three.loss_of(a_batch(6));
  (void)three.loss_of(a_batch(6));
  old.backward();  // The values are still those of the forward pass.
  torch::Tensor late;
  three.set_step([&](TwoLayers& module, const Batch& batch) {
    const torch::Tensor loss = module.forward(batch.inputs).square().mean();
    if (&module == three.others[1].get()) late = loss;
    return StepOutput{loss};
  });
  (void)three.loss_of(a_batch(6));
  const torch::Tensor before = late;
  {
    const torch::NoGradGuard no_grad;
    three.first->out->weight.mul_(2);
  }
  (void)three.loss_of(a_batch(6));
  EXPECT_THAT([&] { before.backward(); }, ThrowsMessage<c10::Error>(HasSubstr("modified by an inplace operation")));
}

TEST(ModuleReplicas, RefuseToFreezeWithoutEffect) {
  Three three;
  three.set_step([](TwoLayers& module, const Batch& batch) {
    module.hidden->weight.set_requires_grad(false);
    return StepOutput{module.forward(batch.inputs).square().mean()};
  });
  EXPECT_THAT([&] { (void)three.loss_of(a_batch(6)); },
              ThrowsMessage<InvalidJob>(HasSubstr("froze the parameter hidden.weight by set_requires_grad(false)")));
}

TEST(ModuleReplicas, GiveGradientsOfWhatIsUnfrozenLater) {
  Three three;
  three.first->hidden->weight.set_requires_grad(false);
  three.loss_of(a_batch(6)).backward();
  EXPECT_FALSE(three.first->hidden->weight.grad().defined());
  EXPECT_FALSE(three.others[0]->hidden->weight.requires_grad());
  three.first->hidden->weight.set_requires_grad(true);
  const auto expected = gradients_of(*three.first, three.first->training_step(a_batch(6), 0).loss);
  expect_close(gradients_of(*three.first, three.loss_of(a_batch(6))), expected);
}

TEST(ModuleReplicas, MayChangeTheirPartsOfTheBatchInPlace) {
  Three three;
  three.set_step([](TwoLayers& module, const Batch& batch) {
    return StepOutput{module.forward(batch.inputs.div_(2)).square().mean()};
  });
  const auto expected = gradients_of(*three.first, three.first->training_step(a_batch(6), 0).loss);
  expect_close(gradients_of(*three.first, three.loss_of(a_batch(6))), expected);
}

TEST(ModuleReplicas, FollowTheFirstAlsoWhereAStepGivesAParameterOtherMemory) {
  Three three;
  three.set_step([](TwoLayers& module, const Batch& batch) {
    const torch::NoGradGuard no_grad;
    module.out->weight.set_data(module.out->weight.clone());
    return StepOutput{batch.inputs.mean()};
  });
  for (int step = 0; step < 2; ++step) {
    (void)three.loss_of(a_batch(6));
    for (const auto& other : three.others) EXPECT_TRUE(torch::equal(other->out->weight, three.first->out->weight));
    const torch::NoGradGuard no_grad;
    three.first->out->weight.add_(1);
  }
}

/// The turns of a batch go on from what the earlier ones have computed, and so from each replica's own buffers.
TEST(ModuleReplicas, KeepTheirBuffersBetweenTheTurnsOnABatch) {
  Three three;
  std::map<TwoLayers*, torch::Tensor> of_first_turn;
  three.set_step([&](TwoLayers& module, const Batch& batch) {
    if (module.optimizer_turn() == "one") {
      module.seen += batch.inputs.square().sum();
      of_first_turn[&module] = module.forward(batch.inputs / module.seen);
      return StepOutput{module.out->weight.sum()};
    }
    return StepOutput{of_first_turn.at(&module).sum()};
  });
  (void)three.replicas->training_step(a_batch(6), 0, {.name = "one"});
  const torch::Tensor seen = three.others[1]->seen.clone();
  const torch::Tensor loss = three.replicas->training_step(a_batch(6), 0, {.name = "two", .is_first = false}).loss;
  EXPECT_TRUE(torch::equal(three.others[1]->seen, seen));
  EXPECT_FALSE(torch::equal(three.others[1]->seen, three.first->seen));
  loss.backward();
}

/// ddp2 exchanges a bucket once its gradients are there, while the backward pass goes on.
TEST(ModuleReplicas, GiveTheLastLayersGradientsBeforeTheFirstLayersAreComputed) {
  for (const bool has_threads : {false, true}) {
    Three three{{.has_threads = has_threads}};
    std::vector<std::string> order;
    std::mutex mutex;
    const auto note = [&](const char* what) {
      const std::scoped_lock lock{mutex};
      order.emplace_back(what);
    };
    three.set_step([&](TwoLayers& module, const Batch& batch) {
      const torch::Tensor hidden = module.hidden(batch.inputs);
      hidden.register_hook([&](const torch::Tensor&) { note("hidden"); });
      return StepOutput{module.out(torch::tanh(hidden)).square().mean()};
    });
    const torch::Tensor loss = three.loss_of(a_batch(6));
    three.first->out->weight.register_hook([&](const torch::Tensor&) { note("out.weight"); });
    three.first->hidden->weight.register_hook([&](const torch::Tensor&) { note("hidden.weight"); });
    loss.backward();
    ASSERT_EQ(order.size(), 5U);
    EXPECT_EQ(order.back(), "hidden.weight");
    EXPECT_NE(order[3], "out.weight") << "a replica's first layer is computed after it";
  }
}

TEST(ModuleReplicas, ThrowWhatFailsBeforeAStepInAThread) {
  // The CPU build has no device of CUDA, as a node has none that has fallen off the bus.
  const auto first = std::make_shared<TwoLayers>();
  std::vector<FurtherReplica> others;
  others.push_back({.module = std::make_shared<TwoLayers>(), .device = torch::Device{torch::kCUDA, 1}});
  ModuleReplicas replicas{*first, torch::kCPU, std::move(others), {.has_threads = true}};
  const torch::NoGradGuard no_grad;
  EXPECT_THROW(replicas.validation_step(a_batch(6), 0), c10::Error);
}

TEST(ModuleReplicas, ComputeEachInAThreadOfItsOwnThatStays) {
  Three three{{.has_threads = true}};
  std::vector<std::set<std::thread::id>> threads(3);
  three.set_step([&](TwoLayers&, const Batch& batch) {
    threads[static_cast<std::size_t>(batch.ids[0].item<std::int64_t>()) / 2].insert(std::this_thread::get_id());
    return StepOutput{torch::zeros({})};
  });
  for (int step = 0; step < 3; ++step) (void)three.loss_of(a_batch(6));
  for (const auto& of_replica : threads) EXPECT_EQ(of_replica.size(), 1U) << "cuDNN keeps its plans by thread";
  EXPECT_THAT(threads[0], ElementsAre(std::this_thread::get_id()));
  EXPECT_NE(threads[1], threads[2]);
}

TEST(ModuleReplicas, RefuseToPredictAScalar) {
  class Scalar final : public Module {
   public:
    [[nodiscard]] StepOutput training_step(const Batch&, std::int64_t) override { return {}; }
    [[nodiscard]] std::map<std::string, torch::Tensor> predict_step(const Batch&, std::int64_t) override {
      return {{"mean", torch::zeros({})}};
    }
  } model;
  ModuleReplicas replicas{model, torch::kCPU, {{.module = std::make_shared<Scalar>()}}, {}};
  EXPECT_THAT([&] { (void)replicas.predict_step(a_batch(2), 0); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("predict_step returned a scalar as 'mean'")));
}

TEST(ModuleReplicas, ValidateAndPredictAsTheModuleAlone) {
  struct Mean final : observe::MetricSink {
    void set_batch_size(std::int64_t samples) override { size = samples; }
    void log(std::string_view, const torch::Tensor& value, const LogOptions&) override {
      sum += value.item<double>() * static_cast<double>(size);
    }
    std::int64_t size = 0;
    double sum = 0.0;
  };
  const torch::NoGradGuard no_grad;
  const Batch batch = a_batch(7);
  Three three{{.has_threads = true}};
  Mean alone, shared, tested;
  alone.size = 7;
  three.first->set_metric_sink(&alone);
  three.first->validation_step(batch, 0);
  three.first->set_metric_sink(&shared);
  three.replicas->validation_step(batch, 0);
  three.first->set_metric_sink(&tested);
  three.replicas->test_step(batch, 0);
  EXPECT_NEAR(shared.sum, alone.sum, 1e-5);
  EXPECT_NEAR(tested.sum, alone.sum, 1e-5);
  const auto predicted = three.replicas->predict_step(batch, 0);
  ASSERT_EQ(predicted.size(), 1U);
  EXPECT_TRUE(torch::allclose(predicted.at("outputs"), three.first->forward(batch.inputs)));
}

}  // namespace
}  // namespace trainyard::train
