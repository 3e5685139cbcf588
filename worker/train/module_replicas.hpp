#pragma once

#include <torch/types.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/ordered_tasks.hpp"
#include "include/trainyard/data.hpp"
#include "include/trainyard/module.hpp"
#include "worker/train/rank_context.hpp"
#include "worker/train/recorded_metrics.hpp"

namespace trainyard::train {

/// An instance of the job's module beside the one that is trained, and the device that it computes on. Several may
/// share the CPU.
struct FurtherReplica {
  std::shared_ptr<Module> module;
  torch::Device device = torch::kCPU;
};

struct ReplicaOptions {
  /// Each further replica computes in a thread of its own, as devices need it. Else the replicas compute one after
  /// another, so that they draw from the CPU's random generator in one order.
  bool has_threads = false;
  std::int64_t seed = 0;  ///< For the random generators of the further replicas' GPUs.
};

/// The turn of an optimizer in which a batch is computed.
struct TurnOfBatch {
  std::string name{};    ///< Empty where there is one optimizer.
  bool is_first = true;  ///< No turn came before on this batch.
};

/// The instances of a job's module that share the batches of a rank (docs/strategies.md, "dp and ddp2"). The first
/// replica is the module that is trained: it has the optimizers, callbacks, checkpoints and the images that are shown.
/// Before each batch the others get the values of its parameters and buffers, and in later turns on that batch those of
/// its parameters alone. Changes that the others make to their buffers are lost with the next batch.
///
/// The gradients of the replicas' parameters are added to those of the trained module in the backward pass, before
/// hooks on its parameters run. Metrics that replicas log are weighted by the sizes of their parts of the batch.
class ModuleReplicas {
 public:
  /// `trained` is on `device`, and outlives the object. Throws InvalidJob when a replica has other parts, parameters or
  /// buffers than `trained`, and for a buffer whose elements share memory.
  ModuleReplicas(Module& trained, torch::Device device, std::vector<FurtherReplica> others,
                 const ReplicaOptions& options);
  ~ModuleReplicas();
  ModuleReplicas(const ModuleReplicas&) = delete;
  ModuleReplicas& operator=(const ModuleReplicas&) = delete;

  /// How many there are, with the trained module.
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(replicas_.size()); }
  /// Sets the source of the facts that modules ask for; nullptr: none.
  void set_rank_context(RankContext* context);

  /// Runs training_step() of the replicas on their parts of the batch, which is divided as by torch.chunk. Returns, on
  /// the trained module's device and with history: as loss, the mean of the replicas' losses weighted by samples; each
  /// value concatenated along dimension 0; a scalar value as a tensor of a number for each part of the batch.
  ///
  /// Throws std::invalid_argument where replicas return different values, and InvalidJob when a step has frozen a
  /// replica's parameter by set_requires_grad(), which has no effect there. An exception of a replica is thrown once
  /// all have ended; that of the first in order, if several throw.
  [[nodiscard]] StepOutput training_step(const Batch& batch, std::int64_t batch_index, const TurnOfBatch& turn = {});
  /// Run the step of that name, and join what the replicas return, as training_step() does.
  [[nodiscard]] StepOutput validation_step(const Batch& batch, std::int64_t batch_index);
  [[nodiscard]] StepOutput test_step(const Batch& batch, std::int64_t batch_index);
  /// Throws std::invalid_argument for a scalar.
  [[nodiscard]] std::map<std::string, torch::Tensor> predict_step(const Batch& batch, std::int64_t batch_index);

 private:
  using Thread = OrderedTasks<std::monostate>;
  struct Replica {
    Module* module;
    torch::Device device;
    std::vector<torch::nn::Module*> parts;  // the module and its submodules
    std::shared_ptr<Module> owner{};        // nullptr for the trained module
    std::vector<torch::Tensor> tensors{};   // its parameters, then its buffers; none for the trained module
    std::vector<torch::Tensor> values{};    // their memory, with versions of their own
    RecordedMetrics metrics{};
    std::optional<RankContext> context{};
    std::unique_ptr<Thread> thread{};  // nullptr: it computes on the caller's
  };
  using Step = std::function<void(std::size_t place, Module& module, const Batch& part)>;

  void link_gradient(Replica& replica, std::size_t parameter);
  struct Outputs {
    std::vector<StepOutput> of_parts;
    std::vector<std::int64_t> samples;  // of the parts
  };
  Outputs run_step(const Batch& batch, const TurnOfBatch& turn,
                   const std::function<StepOutput(Module& module, const Batch& part)>& step);
  [[nodiscard]] StepOutput joined(Outputs outputs) const;
  std::vector<std::int64_t> run(const Batch& batch, const TurnOfBatch& turn, const Step& step);
  std::exception_ptr call(const std::vector<Batch>& parts, const Step& step);
  void copy_trained(Replica& replica, bool is_new_batch);
  void note_versions();
  void check_links() const;
  void seed_generators();

  std::vector<Replica> replicas_;  // the trained module first
  ReplicaOptions options_;
  RankContext* context_ = nullptr;
  std::vector<torch::Tensor> sources_;         // the trained module's parameters, then its buffers
  std::vector<std::string> names_;             // of the parameters
  std::vector<bool> are_linked_;               // the parameters whose replicas give them their gradients
  std::vector<std::int64_t> copied_versions_;  // of the parameters
  std::int64_t drawn_step_ = -1;               // the step of the last training_step()
  std::int64_t draws_ = 0;                     // how many calls came before it in that step
};

}  // namespace trainyard::train
