#pragma once

#include <gtest/gtest.h>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/fake_clock.hpp"
#include "tests/worker/fakes/fake_rank_link.hpp"
#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/fakes/pod_threads.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "tests/worker/train/failing_exchange.hpp"
#include "tests/worker/train/small_module.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/strategy/model_agreement.hpp"
#include "worker/strategy/strategies.hpp"
#include "worker/train/named_tensors.hpp"
#include "worker/train/optimizer_turns.hpp"
#include "worker/train/program_call.hpp"
#include "worker/train/trainer.hpp"

namespace trainyard::train {

/// A whole run of the trainer, whose ranks are threads. Set the fields that matter, then call run().
class TrainingRun {
 public:
  struct Rank {
    std::shared_ptr<SmallModule> module;
    std::shared_ptr<Module> other_module;  ///< Set: it is trained instead of `module`.
    std::unique_ptr<fakes::FakeRankLink> link = std::make_unique<fakes::FakeRankLink>();
    rank::RankEnd end;
    std::string failed_call;                ///< Where it threw, if it did.
    std::uint64_t checksum = 0;             ///< Checksum of parameters and buffers at the end.
    std::vector<torch::Tensor> parameters;  ///< Copies of the parameters at the end.
  };

  /// 100 samples, 10 a step and rank: 5 steps an epoch with two ranks.
  explicit TrainingRun(std::int64_t world_size = 2, double dropout = 0.0) {
    training.batch_size = 10;
    training.log_every.steps = 2;
    for (std::int64_t rank = 0; rank < world_size; ++rank) {
      ranks.emplace_back();
      ranks.back().module = make_small_module(5, dropout);
    }
  }

  void run() {
    torch::manual_seed(99);
    fakes::run_ranks(static_cast<std::int64_t>(ranks.size()), [this](fakes::RankThread& thread) { run_rank(thread); });
  }

  api::TrainingSpec training;
  std::optional<api::CheckpointSpec> checkpoint;
  std::function<std::unique_ptr<storage::Store>(std::int64_t rank)>
      open_store;  ///< Not set: the store of checkpoint.uri.
  /// Wraps a rank's checkpointer for the trainer. Not set: the trainer gets the checkpointer itself.
  std::function<std::unique_ptr<checkpoint::Checkpointer>(std::unique_ptr<checkpoint::Checkpointer>)> watch;
  /// The store of rank 0's snapshots. Not set: no snapshots are made.
  std::function<std::unique_ptr<storage::Store>()> open_snapshots;
  /// The store of rank 0's log files, of the kinds in `training`. Not set: none are written.
  std::function<std::unique_ptr<storage::Store>()> open_log_files;
  std::function<std::string(std::int64_t rank)> node_of;  ///< Not set: all ranks are on one node.
  /// The replicas that share a rank's batches. Not set: the module has none. One rank calls at a time.
  std::function<std::unique_ptr<ModuleReplicas>(Module& module)> make_replicas;
  std::vector<std::int64_t> pods;                     ///< The ranks of each pod, for exchanges by pod.
  std::function<void(const Rank&)> after_first_step;  ///< TrainerParts::after_first_step, on each rank's thread.
  std::function<void()> on_end;                       ///< On each rank's thread, when its trainer has ended.
  FailingExchange* exchange = nullptr;                ///< Of rank 0. Not set: no exchange fails of itself.
  std::optional<std::string> sample_record;
  std::int64_t attempt = 1;
  std::int64_t training_samples = 100;
  const Dataset* training_data = nullptr;                               ///< Not set: `training_samples` small samples.
  std::function<const Sampler*(std::int64_t rank)> sampler_of;          ///< Not set: there is no sampler.
  std::function<const IterableDataset*(std::int64_t rank)> streams_of;  ///< Set: they are trained on.
  std::int64_t validation_samples = 33;
  const Dataset* validation_data = nullptr;  ///< Not set: `validation_samples` small samples.
  std::vector<Rank> ranks;
  fakes::FakeClock clock;

 private:
  [[nodiscard]] data::Sampling sampling_of(const fakes::RankThread& thread, const Dataset& samples) const {
    std::vector<std::int64_t> order_sizes;
    for (std::int64_t rank = 0; training.strategy.join && rank < thread.world_size; ++rank)
      order_sizes.push_back(sampler_of(rank)->size());
    return make_sampling(training, samples, sampler_of ? sampler_of(thread.rank) : nullptr, order_sizes);
  }

  void run_rank(fakes::RankThread& thread) {
    Rank& rank = ranks[static_cast<std::size_t>(thread.rank)];
    Module& module = rank.other_module ? *rank.other_module : *rank.module;
    const auto small_training_data = make_small_dataset(training_samples, 0);
    const Dataset& samples = training_data == nullptr ? small_training_data : *training_data;
    const IterableDataset* const streams = streams_of ? streams_of(thread.rank) : nullptr;
    const auto small_validation_data = make_small_dataset(validation_samples, 1);
    dist::Group group{.rank = thread.rank,
                      .world_size = thread.world_size,
                      .store = {},
                      .process_group = thread.process_group,
                      .pods = pods.empty() ? std::nullopt : std::optional{fakes::make_pods(thread, pods)},
                      .communicator = std::move(thread.communicator),
                      .checkpoint_communicator = std::move(thread.checkpoint_communicator),
                      .averaging_reducer = std::move(thread.averaging_reducer)};
    const bool may_fail = exchange != nullptr && thread.rank == 0;
    const strategy::WaitForWork wait = may_fail ? exchange->wait() : fakes::plain_wait;
    if (may_fail) group.communicator = exchange->watched(std::move(group.communicator));
    convert(module, number_format(training));
    auto turns = open_turns(module, training.optimizer, [&](NamedTensors parameters, NamedTensors buffers) {
      return strategy::make_gradient_sync(std::move(parameters), std::move(buffers), group, wait, {},
                                          training.strategy);
    });
    std::unique_ptr<ModuleReplicas> replicas;
    if (make_replicas) {
      const std::scoped_lock lock{making_};
      replicas = make_replicas(module);
    }
    std::unique_ptr<checkpoint::Checkpointer> checkpointer;
    if (checkpoint) {
      const checkpoint::Identity identity{.job = "ns/job", .job_uid = "uid", .attempt = attempt, .fingerprint = "same"};
      const checkpoint::StartOptions start{.node = node_of ? node_of(thread.rank) : "the node"};
      auto opened = open_store ? checkpoint::open_checkpointer(open_store(thread.rank), *checkpoint, identity,
                                                               *group.checkpoint_communicator, clock, start)
                               : checkpoint::open_checkpointer(*checkpoint, identity, *group.checkpoint_communicator,
                                                               clock, start);
      ASSERT_TRUE(opened.has_value()) << opened.error().message;
      checkpointer = watch ? watch(std::move(*opened)) : std::move(*opened);
    }
    std::optional<SnapshotTaker> snapshots;
    if (open_snapshots && thread.rank == 0) snapshots.emplace(open_snapshots(), clock, attempt);
    std::optional<LogFiles> log_files;
    if (open_log_files && thread.rank == 0)
      log_files.emplace(open_log_files(), clock, logs::WriterSettings{.files = training.log_files, .attempt = attempt});
    std::optional<SampleRecord> record;
    if (sample_record) record.emplace(*SampleRecord::open(*sample_record, attempt, thread.rank));
    Trainer trainer{{.training = training,
                     .checkpoint_every = checkpoint ? checkpoint->every : api::Every{},
                     .copies_every = checkpoint && checkpoint->local ? checkpoint->local->every : api::Every{},
                     .when_busy = checkpoint ? checkpoint->when_busy : api::WhenBusy::skip,
                     .checkpoint_spec = checkpoint ? &*checkpoint : nullptr,
                     .module = module,
                     .replicas = replicas.get(),
                     .train_data = streams == nullptr ? &samples : nullptr,
                     .sampling = streams == nullptr ? sampling_of(thread, samples) : data::Sampling{},
                     .train_streams = streams,
                     .validation_data = validation_data == nullptr ? &small_validation_data : validation_data,
                     .turns = turns,
                     .group = group,
                     .link = *rank.link,
                     .wait = wait,
                     .checkpointer = checkpointer.get(),
                     .snapshots = snapshots ? &*snapshots : nullptr,
                     .log_files = log_files ? &*log_files : nullptr,
                     .sample_record = std::move(record),
                     .after_first_step =
                         [&] {
                           if (after_first_step) after_first_step(rank);
                         },
                     .clock = clock}};
    try {
      rank.end = trainer.run();
    } catch (const std::exception& error) {
      rank.end = {.exit_code = 1, .reason = "Threw", .message = error.what(), .culprit = {}};
      rank.failed_call = failed_call();
    }
    if (on_end) on_end();
    // A strategy whose ranks have parts takes the parameters' memory with it.
    const bool has_parts = !rows_of_parameters(turns).empty();
    if (has_parts && rank.end.exit_code != 0) return;
    ASSERT_TRUE(make_parameters_whole(turns).has_value());
    NamedTensors state = named_parameters(module);
    for (const auto& [name, tensor] : state) rank.parameters.push_back(tensor.detach().clone());
    for (const auto& buffer : named_buffers(module)) state.push_back(buffer);
    rank.checksum = strategy::checksum(state);
  }

  std::mutex making_;  // torch's random generator is one for all ranks
};

}  // namespace trainyard::train
