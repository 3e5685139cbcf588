#include "worker/train/module_replicas.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "checkpoint/group/communicator.hpp"
#include "include/trainyard/options.hpp"
#include "tests/worker/train/three_replicas.hpp"
#include "worker/observe/metric_sinks.hpp"
#include "worker/train/precision.hpp"

namespace trainyard::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

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
                ThrowsMessage<std::logic_error>(
                    HasSubstr("gather in the function that follows the step, such as training_step_end()")));
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
    Three three{{.has_threads = has_threads}};
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

TEST(ModuleReplicas, ThrowWhatFailsBeforeAStepInAThread) {
  // The CPU build has no device of CUDA, as a node has none that has fallen off the bus.
  const auto first = std::make_shared<TwoLayers>();
  std::vector<FurtherReplica> others;
  others.push_back({.module = std::make_shared<TwoLayers>(), .device = torch::Device{torch::kCUDA, 1}});
  ModuleReplicas replicas{*first, torch::kCPU, std::move(others), {.has_threads = true}};
  const torch::NoGradGuard no_grad;
  EXPECT_THROW(std::ignore = replicas.validation_step(a_batch(6), 0), c10::Error);
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
  const StepOutput joined = three.replicas->validation_step(batch, 0);
  three.first->set_metric_sink(&tested);
  EXPECT_TRUE(torch::equal(three.replicas->test_step(batch, 0).values.at("outputs"), joined.values.at("outputs")));
  EXPECT_TRUE(torch::allclose(joined.values.at("outputs"), three.first->forward(batch.inputs)));
  EXPECT_NEAR(shared.sum, alone.sum, 1e-5);
  EXPECT_NEAR(tested.sum, alone.sum, 1e-5);
  const auto predicted = three.replicas->predict_step(batch, 0);
  ASSERT_EQ(predicted.size(), 1U);
  EXPECT_TRUE(torch::allclose(predicted.at("outputs"), three.first->forward(batch.inputs)));
}

}  // namespace
}  // namespace trainyard::train
