#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/group/communicator.hpp"
#include "worker/dist/pods.hpp"
#include "worker/strategy/gradient_sync.hpp"
#include "worker/strategy/per_rank_tensors.hpp"
#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::strategy {

/// Copies of parameters as one tensor of one type, which ranks exchange while the parameters themselves are in use.
class FlatParameters {
 public:
  /// Keeps `parameters`, which are on one device and must keep their storage. `type`: of the copies.
  FlatParameters(const std::vector<torch::Tensor>& parameters, torch::ScalarType type);

  /// Copies the parameters into flat().
  void pack();
  /// Copies flat() into the parameters.
  void unpack();
  /// Adds flat() to the parameters.
  void add();
  /// One dimension, which keeps its storage.
  [[nodiscard]] const torch::Tensor& flat() const { return flat_; }

 private:
  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> views_;  // of flat_, by parameter
  torch::Tensor flat_;
};

/// The parts of a strategy whose ranks have parameters of their own. The communicator outlives the strategy.
struct PerRankModelParts {
  NamedTensors parameters;
  NamedTensors buffers;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;
  checkpoint::Communicator& communicator;
  WaitForWork wait;
  WaitForWork follow;         ///< For the collectives of usual steps.
  std::int64_t interval = 1;  ///< Every so many steps the ranks exchange parameters, the first step among them.
  /// Set: the parameters of a pod's ranks become their mean at its first rank. The first ranks alone exchange, and each
  /// sends the result to its pod. Not set: all ranks exchange.
  std::optional<dist::PodGroups> pods{};
};

/// The process group of the ranks that exchange parameters with each other.
[[nodiscard]] c10d::ProcessGroup& peers_of(const PerRankModelParts& parts);

/// The base of strategies in which each rank trains parameters of its own by its own gradients, and the ranks exchange
/// parameters in place of gradients. All ranks begin with rank 0's parameters and buffers. Each rank keeps its buffers.
/// After finish_gradients() grad() is what the rank's own backward passes have added up.
class PerRankModel : public GradientSync {
 public:
  [[nodiscard]] Result<void> synchronize_model() override;
  void zero_gradients() override;
  void begin_backward(bool /*is_last_batch*/) override {}
  [[nodiscard]] Result<void> finish_gradients() override { return {}; }
  /// Counts the step.
  [[nodiscard]] Result<void> after_update() override;
  [[nodiscard]] bool keeps_parameters_equal() const final { return false; }
  [[nodiscard]] NamedTensors state() const override;
  void before_save() override;
  /// Gives this rank the parameters and buffers that it had, unless the checkpoint lacks this rank.
  [[nodiscard]] Result<void> after_restore() override;
  [[nodiscard]] std::uint64_t exchanged_bytes() const override { return exchanged_bytes_; }

 protected:
  /// `type`: that of the flat parameters.
  PerRankModel(PerRankModelParts parts, torch::ScalarType type);

  [[nodiscard]] bool is_exchange_due() const;
  /// The exchanges that the training has begun before this step.
  [[nodiscard]] std::int64_t exchanges() const;
  /// The steps that the training has made.
  [[nodiscard]] std::int64_t steps() const { return *steps_.const_data_ptr<std::int64_t>(); }
  /// Adds to exchanged_bytes().
  void count_bytes(std::uint64_t bytes) { exchanged_bytes_ += bytes; }
  /// Starts the collective of `start` and counts `bytes`. An error is kept for finish_exchange().
  void begin_exchange(const std::function<c10::intrusive_ptr<c10d::Work>()>& start, std::uint64_t bytes);
  /// Orders the current stream after the collective that begin_exchange() has started. False when there is none.
  [[nodiscard]] Result<bool> finish_exchange();

  [[nodiscard]] FlatParameters& flat() { return flat_; }
  /// Other copies of the same parameters as flat().
  [[nodiscard]] FlatParameters make_flat() const;
  [[nodiscard]] const torch::Tensor& flat_tensor() const { return flat_.flat(); }
  [[nodiscard]] const PerRankModelParts& parts() const { return parts_; }
  [[nodiscard]] std::int64_t world_size() const { return parts_.process_group->getSize(); }
  /// The process group of the ranks that exchange with each other, of which is_peer() says whether this rank is one.
  [[nodiscard]] c10d::ProcessGroup& peers() const { return peers_of(parts_); }
  [[nodiscard]] bool is_peer() const { return !parts_.pods || (parts_.pods->is_first_rank() && !is_one_pod()); }
  /// This rank's number among its peers, or that of its pod's first rank.
  [[nodiscard]] std::int64_t peer() const { return peers().getRank(); }
  [[nodiscard]] std::int64_t peer_count() const { return peers().getSize(); }

  [[nodiscard]] bool is_one_pod() const { return parts_.pods && parts_.pods->is_one_pod(); }
  /// The ranks of this rank's pod, or 1 where all ranks exchange.
  [[nodiscard]] std::int64_t pod_size() const { return parts_.pods ? parts_.pods->own->getSize() : 1; }
  /// A number by which the ranks of a resumed training know whether the same ranks are peers.
  [[nodiscard]] std::int64_t peers_number() const;
  /// Starts to add up the flat parameters of a pod's ranks at its first rank, or at all ranks where there is one pod.
  void begin_sum_of_pod();
  /// Starts to give a pod's ranks the flat parameters of its first rank.
  void begin_result_of_pod();
  [[nodiscard]] Result<void> restore_steps_and_buffers();

 private:
  PerRankModelParts parts_;
  FlatParameters flat_;
  PerRankTensors own_parameters_;
  PerRankTensors own_buffers_;
  torch::Tensor steps_;  // int64 [1], on the host: the steps made so far
  std::uint64_t exchanged_bytes_ = 0;
  c10::intrusive_ptr<c10d::Work> work_;  // under way
  std::string error_;                    // why it could not be started
  std::exception_ptr own_failure_;       // set where that was a failure of this rank's device or program
};

/// `optimizer`, before each of whose steps `average` may change the parameters. Not earlier in a step: until then a
/// checkpoint may still be copied from them.
[[nodiscard]] std::unique_ptr<Optimizer> after_average(std::unique_ptr<Optimizer> optimizer,
                                                       std::function<void()> average);

/// The type in which parameters are averaged: double where one of `parameters` is, and float where none is, since a
/// mean in 16 bits would lose the steps of the training.
[[nodiscard]] torch::ScalarType averaged_type(const NamedTensors& parameters);

/// The sizes of the parts of an exchange that sends `elements` numbers to each of `peers` and nothing to other ranks,
/// by rank.
[[nodiscard]] std::vector<std::int64_t> parts_for(const std::vector<std::int64_t>& peers, std::int64_t elements,
                                                  std::int64_t world_size);

}  // namespace trainyard::strategy
