// The losses and gradients that replicas compute, against those of one device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "include/trainyard/optimizer.hpp"
#include "include/trainyard/options.hpp"
#include "tests/worker/train/three_replicas.hpp"

namespace trainyard::train {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

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

}  // namespace
}  // namespace trainyard::train
