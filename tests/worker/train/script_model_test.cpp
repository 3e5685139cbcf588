#include "worker/train/script_model.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/interchange/weights.hpp"
#include "tests/checkpoint/interchange/python.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "tests/worker/train/training_run.hpp"
#include "worker/dist/torch_error.hpp"
#include "worker/observe/metric_sinks.hpp"
#include "worker/train/module_replicas.hpp"

namespace trainyard::train {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* classify = "def forward(self, x):\n  return torch.matmul(x.flatten(1), self.weight)\n";

/// A TorchScript file of a module with the parameter weight, [784, 10], and the buffer calls, [], whose methods are
/// `code`.
std::string script(const std::string& code, bool has_parameter = true) {
  torch::jit::Module module{"Net"};
  const torch::Tensor weight = torch::linspace(-0.05, 0.05, 7840).reshape({784, 10});
  module.register_parameter("weight", weight.requires_grad_(has_parameter), /*is_buffer=*/!has_parameter);
  module.register_buffer("calls", torch::zeros({}, torch::kLong));
  module.register_attribute("training", c10::BoolType::get(), false);
  module.define(code);
  std::ostringstream file;
  module.save(file);
  return file.str();
}

std::shared_ptr<Module> model_of(const std::string& file, const json& options = json::object()) {
  return make_script_model(std::as_bytes(std::span{file}), Options{options.dump()});
}

Batch batch_of(std::int64_t size) {
  return {.inputs = torch::linspace(0, 1, size * 784).reshape({size, 1, 28, 28}),
          .targets = torch::arange(size) % 10,
          .ids = torch::arange(size)};
}

std::string refused_by(const std::function<void()>& act) {
  try {
    act();
  } catch (const InvalidJob& error) {
    return error.what();
  }
  return "";
}

std::string script_refusal(const std::string& file, const json& options = json::object()) {
  return refused_by([&] {
    const auto model = model_of(file, options);
    std::ignore = model->training_step(batch_of(2), 0);
  });
}

TEST(ScriptModel, HasTheNamesOfTheFileAndTrainsItsTensors) {
  const auto model = model_of(script(classify));
  ASSERT_EQ(named_parameters(*model).size(), 1U);
  EXPECT_EQ(named_parameters(*model)[0].first, "weight");
  EXPECT_EQ(named_buffers(*model)[0].first, "calls");

  const torch::Tensor weight = model->parameters()[0].detach().clone().requires_grad_();
  torch::optim::SGD by_hand{{weight}, 0.1}, of_model{model->parameters(), 0.1};
  for (int step = 0; step < 3; ++step) {
    const Batch batch = batch_of(4);
    by_hand.zero_grad();
    torch::cross_entropy_loss(torch::matmul(batch.inputs.flatten(1), weight), batch.targets).backward();
    by_hand.step();
    of_model.zero_grad();
    model->training_step(batch, step).loss.backward();
    of_model.step();
  }
  EXPECT_TRUE(torch::equal(model->parameters()[0], weight)) << "to the bit";
}

TEST(ScriptModel, TrainsOnSeveralRanksToOneModel) {
  TrainingRun run{2};
  const std::string file = script(classify);
  for (auto& rank : run.ranks) rank.other_module = model_of(file);
  run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.1};
  run.run();
  for (const auto& rank : run.ranks) EXPECT_EQ(rank.end.reason, "Completed") << rank.end.message;
  EXPECT_EQ(run.ranks[0].checksum, run.ranks[1].checksum);
  EXPECT_FALSE(torch::equal(run.ranks[0].other_module->parameters()[0], model_of(file)->parameters()[0]));
}

/// The weight after a training with `strategy`, in which each of `world_size` ranks has `replica_count` instances.
torch::Tensor weight_trained_by(const api::StrategySpec& strategy, std::int64_t world_size,
                                std::int64_t replica_count = 1) {
  TrainingRun run{world_size};
  const std::string file = script(classify);
  for (auto& rank : run.ranks) rank.other_module = model_of(file);
  run.training.strategy = strategy;
  run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.1, .momentum = 0.9};
  if (replica_count > 1) {
    run.make_replicas = [&](Module& module) {
      std::vector<FurtherReplica> others;
      for (std::int64_t replica = 1; replica < replica_count; ++replica) others.push_back({.module = model_of(file)});
      return std::make_unique<ModuleReplicas>(module, torch::kCPU, std::move(others), ReplicaOptions{});
    };
  }
  run.run();
  for (const auto& rank : run.ranks) EXPECT_EQ(rank.end.reason, "Completed") << rank.end.message;
  return run.ranks.back().parameters.at(0);
}

TEST(ScriptModel, TrainsInPartsAndInReplicas) {
  const torch::Tensor by_ddp = weight_trained_by({.name = api::StrategyName::ddp}, 2);
  for (const bool shards_parameters : {false, true}) {
    const api::StrategySpec sharded{.name = api::StrategyName::sharded, .shard_parameters = shards_parameters};
    EXPECT_TRUE(torch::equal(weight_trained_by(sharded, 2), by_ddp)) << "with shardParameters " << shards_parameters;
  }
  const torch::Tensor alone = weight_trained_by({}, 1);
  EXPECT_FALSE(torch::equal(alone, model_of(script(classify))->parameters()[0]));
  EXPECT_TRUE(torch::allclose(weight_trained_by({}, 1, /*replica_count=*/3), alone, 0.0, 1e-5));
}

TEST(ScriptModel, KeepsABufferThatTheScriptReplaces) {
  const auto model =
      model_of(script("def forward(self, x):\n  self.calls = self.calls + 1\n"
                      "  return torch.matmul(x.flatten(1), self.weight) * self.calls\n"));
  const torch::Tensor calls = model->buffers()[0];
  for (int step = 1; step <= 3; ++step) {
    std::ignore = model->training_step(batch_of(2), 0);
    EXPECT_EQ(calls.item<std::int64_t>(), step);
  }
  calls.fill_(10);  // As a checkpoint does.
  std::ignore = model->training_step(batch_of(2), 0);
  EXPECT_EQ(calls.item<std::int64_t>(), 11);
}

TEST(ScriptModel, TrainsThroughABufferThatTheScriptReplaces) {
  const auto model =
      model_of(script("def forward(self, x):\n  y = torch.matmul(x.flatten(1), self.weight) * self.calls\n"
                      "  self.calls = self.calls + 1\n  return y\n"));
  for (int step = 0; step < 3; ++step) {
    model->zero_grad();
    model->training_step(batch_of(2), 0).loss.backward();
    EXPECT_EQ(model->parameters()[0].grad().any().item<bool>(), step > 0) << "the first pass multiplies by 0";
  }
  EXPECT_EQ(model->buffers()[0].item<std::int64_t>(), 3);
}

TEST(ScriptModel, RefusesABufferThatChangesItsShape) {
  EXPECT_THAT(script_refusal(script("def forward(self, x):\n  self.calls = torch.zeros([2])\n"
                                    "  return torch.matmul(x.flatten(1), self.weight)\n")),
              HasSubstr("changes the shape of its buffer calls"));
}

TEST(ScriptModel, MovesTensorsThatAreNoBuffersWithTheModel) {
  torch::jit::Module module{"Net"};
  module.register_parameter("weight", torch::ones({784, 10}).requires_grad_(), /*is_buffer=*/false);
  module.register_attribute("scale", c10::TensorType::get(), torch::ones({1}));
  module.define("def forward(self, x):\n  return torch.matmul(x.flatten(1), self.weight) * self.scale\n");
  std::ostringstream file;
  module.save(file);
  const auto model = model_of(file.str());
  ASSERT_EQ(named_buffers(*model).size(), 1U);
  EXPECT_EQ(named_buffers(*model)[0].first, "scale");
  EXPECT_EQ(named_parameters(*model).size(), 1U);
}

TEST(ScriptModel, SaysWhatFailedInTheScript) {
  const auto model = model_of(script("def forward(self, x):\n  return torch.matmul(x.flatten(1), self.weight.t())\n"));
  try {
    std::ignore = model->training_step(batch_of(2), 0);
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_THAT(dist::message_of(error), HasSubstr("mat1 and mat2 shapes cannot be multiplied"));
  }
}

TEST(ScriptModel, HandsItsModeOnToTheScript) {
  const auto model =
      model_of(script("def forward(self, x):\n  y = torch.matmul(x.flatten(1), self.weight)\n"
                      "  if self.training:\n    y = y * 0\n  return y\n"));
  const Batch batch = batch_of(2);
  EXPECT_FALSE(model->predict_step(batch, 0).at("outputs").any().item<bool>()) << "a file begins in training mode";
  model->eval();
  EXPECT_TRUE(model->predict_step(batch, 0).at("outputs").any().item<bool>());
  model->train();
  EXPECT_FALSE(model->predict_step(batch, 0).at("outputs").any().item<bool>());
}

TEST(ScriptModel, HandsItsModeOnToThePartsOfTheScript) {
  torch::jit::Module part{"Part"};
  part.register_attribute("training", c10::BoolType::get(), false);
  part.define("def forward(self, x):\n  if self.training:\n    return x * 0\n  return x\n");
  torch::jit::Module module{"Net"};
  module.register_parameter("weight", torch::ones({784, 10}).requires_grad_(), /*is_buffer=*/false);
  module.register_module("part", part);
  module.define("def forward(self, x):\n  return self.part.forward(torch.matmul(x.flatten(1), self.weight))\n");
  std::ostringstream file;
  module.save(file);
  const auto model = model_of(file.str());
  const Batch batch = batch_of(2);
  for (const bool is_training : {true, false, true}) {
    model->train(is_training);
    EXPECT_EQ(model->predict_step(batch, 0).at("outputs").any().item<bool>(), !is_training);
  }
}

TEST(ScriptModel, ValidatesWithItsOwnLossAndNamesAnAccuracyOnlyOfClasses) {
  const std::string two_rows = "def forward(self, x):\n  return torch.matmul(x.flatten(1), self.weight)\n";
  const auto metrics_of = [](const std::shared_ptr<Module>& model, const Batch& batch) {
    observe::ValidationMetrics metrics;
    metrics.set_batch_size(batch.size());
    model->set_metric_sink(&metrics);
    model->validation_step(batch, 0);
    model->set_metric_sink(nullptr);
    checkpoint::SingleCommunicator alone;
    return metrics.sums().reduce(alone).value();
  };
  const auto names_of = [&](const json& options, const torch::Tensor& targets) {
    Batch batch = batch_of(2);
    batch.targets = targets;
    std::vector<std::string> names;
    for (const auto& [name, value] : metrics_of(model_of(script(two_rows), options), batch)) names.push_back(name);
    return names;
  };
  EXPECT_THAT(names_of(json::object(), torch::tensor({1, 2})), ElementsAre("val_accuracy", "val_loss"));
  EXPECT_THAT(names_of(json::object(), torch::full({2, 10}, 0.1)), ElementsAre("val_loss")) << "probabilities";
  EXPECT_THAT(names_of({{"loss", "mse"}}, torch::zeros({2, 10})), ElementsAre("val_loss"));
  EXPECT_THAT(names_of({{"loss", "mse"}}, torch::zeros({2, 10}, torch::kLong)), ElementsAre("val_loss"));
  const auto own =
      model_of(script("def forward(self, x, y):\n  return self.weight.sum() * 0 + y.sum() * 2\n"), {{"loss", "own"}});
  Batch batch = batch_of(2);
  batch.targets = torch::tensor({3, 4});
  EXPECT_THAT(metrics_of(own, batch), ElementsAre(std::pair{std::string{"val_loss"}, 14.0}));
}

TEST(ScriptModel, MovesAndConvertsTheScriptsOwnTensors) {
  const auto model = model_of(script(classify));
  model->to(torch::kDouble);
  Batch batch = batch_of(2);
  batch.inputs = batch.inputs.to(torch::kDouble);
  EXPECT_EQ(model->training_step(batch, 0).loss.scalar_type(), torch::kDouble);
}

TEST(ScriptModel, HasTheLossThatItsOptionNames) {
  const std::string first = "def forward(self, x):\n  return torch.matmul(x.flatten(1), self.weight)[:, 0]\n";
  Batch batch = batch_of(3);
  batch.targets = torch::tensor({0.0F, 1.0F, 1.0F});
  const torch::Tensor outputs = model_of(script(first))->predict_step(batch, 0).at("outputs");
  const auto loss = [&](const std::string& name) {
    return model_of(script(first), {{"loss", name}})->training_step(batch, 0).loss;
  };
  EXPECT_TRUE(torch::allclose(loss("mse"), torch::mse_loss(outputs, batch.targets)));
  EXPECT_TRUE(torch::allclose(loss("l1"), torch::l1_loss(outputs, batch.targets)));
  const torch::Tensor with_logits = torch::binary_cross_entropy_with_logits(outputs, batch.targets);
  EXPECT_TRUE(torch::allclose(loss("bceWithLogits"), with_logits));
  batch.targets = batch.targets.to(torch::kLong);
  for (const char* name : {"mse", "l1", "bceWithLogits"}) EXPECT_TRUE(loss(name).defined()) << name;
  EXPECT_TRUE(torch::allclose(loss("bceWithLogits"), with_logits)) << "classes 0 and 1 become floats";
  batch.targets = batch.targets.unsqueeze(1);
  for (const char* name : {"mse", "l1", "bceWithLogits"}) {
    EXPECT_THAT(refused_by([&] { std::ignore = loss(name); }), HasSubstr("the model gives [3] for targets [3, 1]"))
        << name;
  }
  batch.targets.reset();
  for (const char* name : {"crossEntropy", "mse"})
    EXPECT_THAT(refused_by([&] { std::ignore = loss(name); }), HasSubstr("needs targets, and the data has none"))
        << name;
  batch.targets = torch::tensor({0, 1, 1});

  const auto own =
      model_of(script("def forward(self, x, y):\n  return self.weight.sum() * y.sum()\n"), {{"loss", "own"}});
  EXPECT_TRUE(torch::allclose(own->training_step(batch, 0).loss, own->parameters()[0].sum() * 2));
  EXPECT_THROW(std::ignore = own->predict_step(batch, 0), InvalidJob);
}

TEST(ScriptModel, SaysWhyAFileCannotBeTrained) {
  EXPECT_THAT(script_refusal("no archive"), HasSubstr("cannot be read by LibTorch"));
  EXPECT_THAT(script_refusal(script(classify).substr(0, 700)), HasSubstr("cannot be read by LibTorch"));
  EXPECT_THAT(script_refusal(script(classify, /*has_parameter=*/false)), HasSubstr("no parameter to train"));
  EXPECT_THAT(script_refusal(script("def run(self, x):\n  return x\n")), HasSubstr("no forward()"));
  EXPECT_THAT(script_refusal(script("def forward(self, x, y):\n  return x + y\n")),
              HasSubstr("needs 2 arguments, and is given 1: the inputs; with options.loss own"));
  EXPECT_THAT(script_refusal(script(classify), {{"loss", "own"}}), HasSubstr("needs 1 arguments, and is given 2"));
  EXPECT_THAT(script_refusal(script("def forward(self, x):\n  return (x, x)\n")), HasSubstr("returned a Tuple"));
  EXPECT_THAT(script_refusal(script(classify), {{"loss", "hinge"}}), HasSubstr("training.model.options.loss"));
  EXPECT_EQ(script_refusal(script("def forward(self, x, scale: float=2.0):\n  return torch.matmul(x.flatten(1), "
                                  "self.weight) * scale\n")),
            "")
      << "an argument with a default need not be given";
}

class ScriptFile : public testing::Test {
 protected:
  [[nodiscard]] std::string load(const std::string& name, const std::string& sha256 = {},
                                 const json& options = json::object()) {
    const auto loaded = load_script_model({.kind = api::ModelKind::torchscript,
                                           .name = "net",
                                           .uri = folder.uri() + "/" + name,
                                           .sha256 = sha256,
                                           .options = options},
                                          {}, patience, clock);
    if (loaded) return "";
    kind = loaded.error().kind;
    return loaded.error().message;
  }

  fakes::TemporaryFolder folder;
  fakes::FakeClock clock;
  checkpoint::StartPatience patience;
  ErrorKind kind{};
};

TEST_F(ScriptFile, IsReadFromAStorageAndComparedWithItsDigest) {
  const std::string bytes = script(classify);
  std::ofstream{folder.path() + "/net.pt", std::ios::binary} << bytes;
  EXPECT_EQ(load("net.pt"), "");
  checkpoint::Sha256 digest;
  digest.add(std::as_bytes(std::span{bytes}));
  const std::string right = digest.finish();
  EXPECT_EQ(load("net.pt", right), "");
  EXPECT_THAT(load("net.pt", std::string(64, '0')), HasSubstr(right + ", and 0000"));
  EXPECT_EQ(kind, ErrorKind::corrupt);
  EXPECT_THAT(load("other.pt"), HasSubstr("training.model.uri"));
  EXPECT_EQ(kind, ErrorKind::not_found);
  EXPECT_THAT(load("net.pt", "", {{"width", 3}}), HasSubstr("width"));
  EXPECT_EQ(kind, ErrorKind::invalid);
}

TEST(ScriptFiles, AreTheSameOnAllRanks) {
  for (const bool is_replaced : {false, true}) {
    fakes::run_ranks(2, [&](fakes::RankThread& rank) {
      const auto agreed = agree_on_script(is_replaced && rank.rank == 1 ? "new" : "old", *rank.communicator);
      EXPECT_EQ(agreed.has_value(), !is_replaced);
      if (!agreed) {
        EXPECT_THAT(agreed.error().message, HasSubstr("SHA-256 old, and rank 1 one with new"));
      }
    });
  }
}

/// Numbers of a Python program, one after the other.
std::vector<double> numbers_in(const std::string& file) {
  std::ifstream in{file};
  return {std::istream_iterator<double>{in}, {}};
}

TEST_F(ScriptFile, OfPythonTrainsAsPythonDoes) {
  checkpoint::need_safetensors();
  if (IsSkipped()) return;
  const std::string command =
      fmt::format("{} {} {} > {}/output 2>&1", paths::torch_python(),
                  paths::source("tests/worker/train/script_oracle.py"), folder.path(), folder.path());
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  std::ifstream file{folder.path() + "/net.pt", std::ios::binary};
  const auto model = model_of({std::istreambuf_iterator<char>{file}, {}});
  std::vector<std::string> names;
  for (const auto& [name, parameter] : named_parameters(*model)) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("0.weight", "0.bias", "1.weight", "1.bias", "4.weight", "4.bias"));

  const std::vector<double> expected = numbers_in(folder.path() + "/losses");
  ASSERT_EQ(expected.size(), 6U);
  torch::optim::SGD optimizer{model->parameters(), torch::optim::SGDOptions{0.01}.momentum(0.9)};
  for (std::size_t step = 0; step < expected.size(); ++step) {
    optimizer.zero_grad();
    const torch::Tensor loss = model->training_step(batch_of(8), 0).loss;
    EXPECT_NEAR(loss.item<double>(), expected[step], 1e-5 * expected[step]) << "step " << step;
    loss.backward();
    optimizer.step();
  }
}

}  // namespace
}  // namespace trainyard::train
