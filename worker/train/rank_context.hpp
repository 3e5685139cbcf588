#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/group/communicator.hpp"
#include "worker/strategy/wait_for_work.hpp"
#include "worker/train/process_sets.hpp"

namespace trainyard::train {

/// References outlive the context.
struct RankContextParts {
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;
  checkpoint::Communicator& communicator;
  strategy::WaitForWork wait;
  torch::Device device = torch::kCPU;
  const ProcessSets* process_sets = nullptr;  ///< nullptr: there are none.
};

/// The facts that a module may ask for while it trains, and its collectives. Used from the training thread.
class RankContext {
 public:
  explicit RankContext(RankContextParts parts) : parts_{std::move(parts)} {}

  /// Sets the number of steps that are done, and the epoch from 0.
  void set(std::int64_t step, std::int64_t epoch) {
    step_ = step;
    epoch_ = epoch;
  }
  void set_learning_rate(double learning_rate) { learning_rate_ = learning_rate; }
  [[nodiscard]] double learning_rate() const { return learning_rate_; }
  [[nodiscard]] std::int64_t global_step() const { return step_; }
  [[nodiscard]] std::int64_t current_epoch() const { return epoch_; }
  [[nodiscard]] std::int64_t rank() const { return parts_.communicator.rank(); }
  [[nodiscard]] std::int64_t world_size() const { return parts_.communicator.world_size(); }
  [[nodiscard]] torch::Device device() const { return parts_.device; }
  /// The facts as of now, for a replica of the module on `device`, which has no collectives.
  [[nodiscard]] RankContext of_replica(torch::Device device) const;

  /// For each of `tensors` those of all ranks: [world size, ...] on its device, without history. Orders the current
  /// stream after the exchange, without waiting for the device. Collective. Throws std::invalid_argument where the
  /// ranks' tensors differ in number, shape, dtype or kind of device, strategy::ExchangeFailed, and std::logic_error in
  /// a replica.
  [[nodiscard]] std::vector<torch::Tensor> all_gather(const std::vector<torch::Tensor>& tensors) const;

  /// The process set of that name. Throws std::invalid_argument where there is none, and std::logic_error in a replica.
  [[nodiscard]] const ProcessSet& process_set(std::string_view name) const;

 private:
  void check_is_no_replica(std::string_view call, std::string_view action) const;
  void check_equal_on_all_ranks(const std::vector<torch::Tensor>& tensors) const;

  RankContextParts parts_;
  std::int64_t step_ = 0;
  std::int64_t epoch_ = 0;
  double learning_rate_ = 0.0;
  bool is_of_replica_ = false;
};

}  // namespace trainyard::train
