// Training on the simulated device.
#include <ATen/Context.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <trainyard/trainyard.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/fakes/device_work.hpp"
#include "tests/worker/fakes/fake_gauge.hpp"
#include "tests/worker/fakes/fake_rank_link.hpp"
#include "tests/worker/fakes/late_device.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "worker/data/batch_loader.hpp"
#include "worker/data/image_dataset.hpp"
#include "worker/data/synthetic.hpp"
#include "worker/dist/steps_in_flight.hpp"
#include "worker/dist/wait_or_fail.hpp"
#include "worker/dist/watched_wait.hpp"
#include "worker/strategy/strategies.hpp"
#include "worker/train/named_tensors.hpp"
#include "worker/train/optimizer_turns.hpp"
#include "worker/train/optimizers.hpp"
#include "worker/train/rank_context.hpp"
#include "worker/train/trainer.hpp"

// The shipped example without its main().
#undef TRAINYARD_MAIN
#define TRAINYARD_MAIN(ModuleType) using Example = ModuleType;
#include "examples/own-model/line_fit.cpp"  // NOLINT(bugprone-suspicious-include): see above.

namespace trainyard::train {
namespace {

/// LineFit with a validation, and with a metric on the host beside those on the device.
class WatchedLineFit final : public Module {
 public:
  WatchedLineFit() { register_module("line", line_); }
  [[nodiscard]] StepOutput training_step(const Batch& batch, std::int64_t batch_index) override {
    log("batches", static_cast<double>(batch_index));
    return torch::mse_loss(line_(batch.inputs), batch.targets);
  }
  StepOutput validation_step(const Batch& batch, std::int64_t /*batch_index*/) override {
    log("val_loss", torch::mse_loss(line_(batch.inputs), batch.targets));
    log("samples", static_cast<double>(batch.size()), {.reduce = Reduce::sum});
    return {};
  }

 private:
  torch::nn::Linear line_{1, 1};
};

/// One rank that trains `module` on the simulated device, with data on the host.
rank::RankEnd train_on_device(Module& module, fakes::FakeRankLink& link, bool validates) {
  const torch::Device device = fakes::late_device::device();
  api::TrainingSpec training;
  training.batch_size = 10;
  training.epochs = 3;
  training.log_every.steps = 50;
  training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.1};
  rank::RankEnd end;
  fakes::late_device::move_module(module);
  fakes::run_ranks(1, [&](fakes::RankThread& rank) {
    const LineFitData data{1};
    const fakes::FakeClock clock;
    dist::Group group{.rank = 0,
                      .world_size = 1,
                      .store = {},
                      .process_group = rank.process_group,
                      .communicator = std::move(rank.communicator),
                      .checkpoint_communicator = std::move(rank.checkpoint_communicator)};
    const strategy::WaitForWork wait = [](const c10::intrusive_ptr<c10d::Work>& work,
                                          std::string_view /*what*/) -> Result<void> {
      work->wait();
      return {};
    };
    auto turns = open_turns(module, training.optimizer, [&](NamedTensors parameters, NamedTensors buffers) {
      return strategy::make_gradient_sync(std::move(parameters), std::move(buffers), group, wait);
    });
    Trainer trainer{{.training = training,
                     .module = module,
                     .train_data = &data,
                     .sampling = make_sampling(training, data, nullptr, {}),
                     .validation_data = validates ? &data : nullptr,
                     .turns = turns,
                     .group = group,
                     .link = link,
                     .wait = wait,
                     .device = device,
                     .clock = clock}};
    try {
      end = trainer.run();
    } catch (const std::exception& error) {
      end = {.exit_code = 1, .reason = "Threw", .message = error.what(), .culprit = {}};
    }
  });
  return end;
}

TEST(TrainingOnADevice, WorksForTheShippedExampleWhoseDataStaysOnTheHost) {
  Example module{Options{}};
  fakes::FakeRankLink link;
  const rank::RankEnd end = train_on_device(module, link, /*validates=*/false);
  EXPECT_EQ(end.reason, "Completed") << end.message;
  EXPECT_NEAR(module.parameters()[0].cpu().item<double>(), 3.0, 0.05) << "it has learnt the slope";
}

TEST(TrainingOnADevice, ValidatesThereAndLogsNumbersOfTheHostBesideThoseOfTheDevice) {
  WatchedLineFit module;
  fakes::FakeRankLink link;
  const rank::RankEnd end = train_on_device(module, link, /*validates=*/true);
  EXPECT_EQ(end.reason, "Completed") << end.message;
  EXPECT_NE(end.message.find("samples 2000"), std::string::npos) << end.message;
  ASSERT_FALSE(link.reports().empty());
  EXPECT_TRUE(std::isfinite(link.reports().back().loss.value_or(NAN)));
}

/// A group of two ranks of which the other always has this rank's tensors. Its collectives on the device end later, on
/// a stream of their own, and those on the host at once.
class EchoGroup final : public c10d::ProcessGroup {
 public:
  /// `sums_before_failure`: how many sums on the device succeed before one fails, as NCCL's do that a watchdog aborts.
  explicit EchoGroup(int sums_before_failure) : ProcessGroup{0, 2}, sums_left_{sums_before_failure} {}
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& /*options*/) override {
    if (tensors.front().is_cpu()) return c10::make_intrusive<HostWork>();
    const auto failure =
        sums_left_-- > 0 ? nullptr : std::make_exception_ptr(std::runtime_error{"ncclRemoteError: lost"});
    return on_side_stream([sum = tensors.front()] { fakes::late_device::scale_now(sum, 2.0); }, failure);
  }
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& received,
                                           std::vector<at::Tensor>& sent,
                                           const c10d::AllgatherOptions& /*options*/) override {
    const auto copy = [sent = sent.front(), received = received.front()] {
      for (const at::Tensor& each : received)
        std::memcpy(each.mutable_data_ptr(), sent.const_data_ptr(), static_cast<std::size_t>(sent.nbytes()));
    };
    if (!sent.front().is_cpu()) return on_side_stream(copy);
    copy();
    return c10::make_intrusive<HostWork>();
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& /*tensors*/,
                                           const c10d::BroadcastOptions& /*options*/) override {
    return on_side_stream([] {});
  }

 private:
  class HostWork final : public c10d::Work {
   public:
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
      auto future = c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get());
      future->markCompleted();
      return future;
    }
  };

  c10::intrusive_ptr<c10d::Work> on_side_stream(std::function<void()> collective,
                                                const std::exception_ptr& failure = nullptr) {
    c10::Event queued = dist::mark_queue(fakes::late_device::device());
    queued.block(stream_);
    auto work = c10::make_intrusive<fakes::DeviceWork>();
    const c10::StreamGuard guard{stream_};
    fakes::late_device::queue([work, collective = std::move(collective), failure] {
      collective();
      work->end(failure);
    });
    return work;
  }

  int sums_left_;
  c10::Stream stream_ = c10::impl::VirtualGuardImpl{fakes::late_device::device().type()}.getStreamFromGlobalPool(
      fakes::late_device::device());
};

/// The messages of a group of two ranks of which the other always says what this rank says.
class EchoCommunicator final : public checkpoint::Communicator {
 public:
  [[nodiscard]] std::int64_t rank() const override { return 0; }
  [[nodiscard]] std::int64_t world_size() const override { return 2; }
  [[nodiscard]] Result<std::string> broadcast(std::string_view text, std::int64_t /*root*/) override {
    return std::string{text};
  }
  [[nodiscard]] Result<std::vector<std::string>> all_gather(std::string_view text) override {
    return std::vector<std::string>(2, std::string{text});
  }
  [[nodiscard]] Result<void> broadcast_parts(std::span<const checkpoint::BroadcastPart> /*parts*/) override {
    return {};
  }
};

TEST(AllGather, FollowsTheDevicesWorkWithoutWaitingForIt) {
  const torch::Device device = fakes::late_device::device();
  fakes::FakeRankLink link;
  dist::StepsInFlight in_flight{device, link, std::chrono::minutes{1}};
  EchoCommunicator communicator;
  const RankContext context{{.process_group = c10::make_intrusive<EchoGroup>(0),
                             .communicator = communicator,
                             .wait = [&](const c10::intrusive_ptr<c10d::Work>& work,
                                         std::string_view what) { return in_flight.follow(work, what); },
                             .device = device}};
  const torch::Tensor own = torch::zeros({4}).to(device);
  fakes::late_device::queue_fill(own, 3.0);
  const int before = fakes::late_device::blocking_calls();
  const std::vector<torch::Tensor> all = context.all_gather({own, torch::ones({2})});
  EXPECT_EQ(fakes::late_device::blocking_calls(), before);
  ASSERT_TRUE(in_flight.finish());
  EXPECT_EQ(all[0].device(), device);
  EXPECT_TRUE(torch::equal(all[0].cpu(), torch::full({2, 4}, 3.0F)));
  EXPECT_TRUE(torch::equal(all[1], torch::ones({2, 2})));
}

/// A classifier with BatchNorm, whose buffers rank 0 sends.
class Classifier final : public Module {
 public:
  Classifier() {
    register_module("norm", norm_);
    register_module("line", line_);
  }
  [[nodiscard]] StepOutput training_step(const Batch& batch, std::int64_t batch_index) override {
    const bool begins_step = optimizer_turn() != "line";
    if (begins_step && (batch_index == 10 || batch_index == 110))
      blocking_calls_.push_back(fakes::late_device::blocking_calls());
    log("host", 1.0);
    return torch::cross_entropy_loss(line_(norm_(batch.inputs).flatten(1)), batch.targets);
  }
  [[nodiscard]] std::vector<NamedOptimizer> configure_named_optimizers(const OptimizerSpec& spec) override {
    if (!takes_turns) return {};
    std::vector<NamedOptimizer> optimizers;
    optimizers.push_back(make_named_optimizer("norm", spec, {{.parameters = norm_->parameters()}}, *this));
    optimizers.push_back(make_named_optimizer("line", spec, {{.parameters = line_->parameters()}}, *this));
    return optimizers;
  }
  /// The number of calls that blocked in 100 steps.
  [[nodiscard]] int blocking_calls() const { return blocking_calls_.at(1) - blocking_calls_.at(0); }

  bool takes_turns = false;  ///< Each layer has an optimizer of its own.

 private:
  torch::nn::BatchNorm2d norm_{1};
  torch::nn::Linear line_{784, 10};
  std::vector<int> blocking_calls_;
};

/// A run of rank 0 of an EchoGroup, with data on the host and steps in flight.
struct EchoRun {
  EchoRun() {
    training.batch_size = 2;
    training.log_every.steps = 1000;
    training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.001};
    fakes::late_device::move_module(module);
  }

  rank::RankEnd run() {
    const torch::Device device = fakes::late_device::device();
    const data::LabeledImages images = data::make_synthetic_images(600, 0, data::Part::train);
    const data::ImageDataset data{images.images, images.labels};
    const fakes::FakeClock clock;
    dist::Group group{.rank = 0,
                      .world_size = 2,
                      .store = {},
                      .process_group = c10::make_intrusive<EchoGroup>(sums_before_failure),
                      .communicator = std::make_unique<checkpoint::SingleCommunicator>(),
                      .checkpoint_communicator = std::make_unique<checkpoint::SingleCommunicator>()};
    dist::StepsInFlight in_flight{device, link, std::chrono::minutes{1}};
    const strategy::WaitForWork wait = [&](const c10::intrusive_ptr<c10d::Work>& work, std::string_view what) {
      return dist::wait_or_fail(work, link, std::chrono::minutes{1}, what);
    };
    const strategy::WaitForWork follow = [&](const c10::intrusive_ptr<c10d::Work>& work, std::string_view what) {
      return in_flight.follow(work, what);
    };
    auto turns = open_turns(module, training.optimizer, [&](NamedTensors parameters, NamedTensors buffers) {
      return strategy::make_gradient_sync(std::move(parameters), std::move(buffers), group, wait, follow);
    });
    std::unique_ptr<checkpoint::Checkpointer> checkpointer;
    if (checkpoint) {
      auto opened = checkpoint::open_checkpointer(
          *checkpoint, {.job = "ns/job", .job_uid = "uid", .attempt = 1, .fingerprint = "same"},
          *group.checkpoint_communicator, clock, {.node = "the node", .device_memory = &gauge});
      if (!opened) return {.exit_code = 1, .reason = "NotOpened", .message = opened.error().message, .culprit = {}};
      checkpointer = std::move(*opened);
    }
    Trainer trainer{{.training = training,
                     .checkpoint_every = checkpoint ? checkpoint->every : api::Every{},
                     .when_busy = checkpoint ? checkpoint->when_busy : api::WhenBusy::skip,
                     .module = module,
                     .train_data = &data,
                     .sampling = make_sampling(training, data, nullptr, {}),
                     .turns = turns,
                     .group = group,
                     .link = link,
                     .wait = wait,
                     .in_flight = &in_flight,
                     .checkpointer = checkpointer.get(),
                     .device = device,
                     .clock = clock}};
    return trainer.run();
  }

  api::TrainingSpec training;
  std::optional<api::CheckpointSpec> checkpoint;
  int sums_before_failure = std::numeric_limits<int>::max();
  Classifier module;
  fakes::FakeRankLink link;
  fakes::FakeGauge gauge;
};

TEST(TrainingOnADevice, NeverWaitsForItInAUsualStep) {
  for (const bool takes_turns : {false, true}) {
    // Not torch::manual_seed(), since the simulated device has no generator. The loss then is the same in each run.
    at::Generator generator = at::globalContext().defaultGenerator(torch::kCPU);
    generator.set_current_seed(3);
    EchoRun run;
    run.module.takes_turns = takes_turns;
    run.training.max_steps = 120;
    run.training.data.loader_threads = 2;
    if (takes_turns) {
      run.training.gradient_clip = {.norm = 1.0, .value = {}};
      run.training.on_non_finite_loss = api::OnNonFiniteLoss::skip;
    }
    const rank::RankEnd end = run.run();
    EXPECT_EQ(end.reason, "Completed") << end.message;
    EXPECT_EQ(run.module.blocking_calls(), 0);
    const double loss_max = takes_turns ? 5.0 : 2.5;  // With turns it is the sum of two.
    EXPECT_LT(run.link.reports().back().loss.value_or(NAN), loss_max) << "the last line's loss is known";
  }
}

TEST(TrainingOnADevice, EndsAsPeerLostWhereACollectiveHasFailedUnseen) {
  for (const std::int64_t max_steps : {3, 50}) {  // It is seen by the last log line, or when too many steps are queued.
    EchoRun run;
    run.training.max_steps = max_steps;
    run.sums_before_failure = 2;
    const rank::RankEnd end = run.run();
    EXPECT_EQ(end.reason, "PeerLost");
    EXPECT_NE(end.message.find("the gradients' all-reduce failed: ncclRemoteError"), std::string::npos) << end.message;
  }
}

TEST(TrainingOnADevice, SavesNothingAfterACollectiveThatHasFailedUnseen) {
  for (const bool fails : {false, true}) {
    const fakes::TemporaryFolder folder;
    EchoRun run;
    run.training.max_steps = 50;
    run.checkpoint.emplace().uri = folder.uri();
    run.checkpoint->every.steps = 3;
    run.checkpoint->keep.last = 100;
    if (fails) run.sums_before_failure = 2;
    EXPECT_EQ(run.run().reason, fails ? "PeerLost" : "Completed");
    EXPECT_EQ(std::filesystem::exists(folder.path() + "/step-3"), !fails);
  }
}

/// The bytes of the only data file under `folder`.
std::string data_in(const std::string& folder) {
  std::string bytes;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{folder}) {
    if (entry.path().extension() != ".safetensors") continue;
    std::ifstream file{entry.path(), std::ios::binary};
    bytes.append(std::istreambuf_iterator<char>{file}, {});
  }
  return bytes;
}

TEST(TrainingOnADevice, SavesTheSameBytesWithAndWithoutACopyOnTheDevice) {
  std::vector<std::string> saved;
  for (const bool has_room : {false, true}) {
    at::Generator generator = at::globalContext().defaultGenerator(torch::kCPU);
    generator.set_current_seed(7);  // Not torch::manual_seed(), since the simulated device has no generator.
    const fakes::TemporaryFolder folder;
    EchoRun run;
    run.gauge.memory.free_bytes = has_room ? std::uint64_t{2} << 30 : 0;
    run.training.max_steps = 20;
    run.checkpoint.emplace().uri = folder.uri();
    run.checkpoint->every.steps = 5;
    run.checkpoint->keep.last = 100;
    run.checkpoint->when_busy = api::WhenBusy::wait;
    EXPECT_EQ(run.run().reason, "Completed");
    EXPECT_EQ(run.gauge.resets, has_room ? 4 : 0) << "each save's copy gave its memory back";
    for (const char* step : {"/step-5", "/step-10", "/step-15"}) saved.push_back(data_in(folder.path() + step));
  }
  ASSERT_EQ(saved.size(), 6U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_FALSE(saved[i].empty());
    EXPECT_TRUE(saved[i] == saved[i + 3]) << "save " << i;
    EXPECT_FALSE(saved[i] == saved[(i + 1) % 3]) << "training changes the parameters from save to save";
  }
}

TEST(BatchLoader, UsesOnlyTheRanksDeviceAndPinsWhatItsThreadsGather) {
  const torch::Device device = fakes::late_device::device();
  std::atomic<bool> has_requested{false};
  data::BatchLoader loader{
      [&]() -> std::optional<data::BatchRequest> {
        if (has_requested.exchange(true)) return std::nullopt;
        return data::BatchRequest{.ids = torch::arange(3)};
      },
      [&](const data::BatchRequest& request) {
        std::ignore = dist::mark_queue(device);  // As a data set that is on the device, or copies to it, does.
        return Batch{
            .inputs = torch::arange(3) * 5, .targets = {}, .ids = request.ids, .named = {{"mask", torch::ones({3})}}};
      },
      {.threads = 1, .device = device}};
  fakes::late_device::forget_contexts();
  const int before = fakes::late_device::blocking_calls();
  const Batch batch = loader.next();
  EXPECT_EQ(fakes::late_device::blocking_calls(), before);
  EXPECT_FALSE(fakes::late_device::has_context(0));
  EXPECT_EQ(batch.inputs.device(), device);
  EXPECT_TRUE(torch::equal(batch.inputs.cpu(), torch::arange(3) * 5));
  EXPECT_EQ(batch.named.at("mask").tensor().device(), device);
  EXPECT_TRUE(batch.ids.is_cpu());
}

TEST(TrainingOnADevice, IdentifiesItsDataByTheSameIdAsOnTheHost) {
  const data::LabeledImages images = data::make_synthetic_images(100, 0, data::Part::train);
  const data::ImageDataset on_host{images.images, images.labels};
  const data::ImageDataset on_device{images.images, images.labels, fakes::late_device::device()};
  EXPECT_EQ(on_device.id(), on_host.id());
}

TEST(Optimizers, GiveADevicesKernelsWeightsOfOneType) {
  for (const OptimizerSpec& spec :
       {OptimizerSpec{.name = "adam", .lr = 0.1}, OptimizerSpec{.name = "sgd", .lr = 0.1, .momentum = 0.9}}) {
    Optimizer::NamedTensors weights;
    for (const auto type : {torch::kFloat, torch::kBFloat16, torch::kFloat}) {
      const torch::Tensor weight = torch::ones({3}).to(type).to(fakes::late_device::device()).requires_grad_();
      weight.mutable_grad() = torch::ones_like(weight, torch::requires_grad(false));
      weights.emplace_back("weight", weight);
    }
    make_optimizer(spec, weights)->step();
    for (const auto& [name, weight] : weights) {
      const torch::Tensor on_host = weight.detach().cpu().to(torch::kFloat);
      EXPECT_TRUE(torch::allclose(on_host, torch::full({3}, 0.9), 0.01)) << on_host;
    }
  }
}

}  // namespace
}  // namespace trainyard::train
