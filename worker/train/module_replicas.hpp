#pragma once

#include <torch/types.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "include/trainyard/data.hpp"
#include "include/trainyard/module.hpp"
#include "worker/train/precision.hpp"
#include "worker/train/rank_context.hpp"
#include "worker/train/recorded_metrics.hpp"

namespace trainyard::train {

/// A further instance of a job's module, on a device of its own.
struct Replica {
  std::shared_ptr<Module> module;
  torch::Device device = torch::kCPU;
};

struct ReplicaOptions {
  NumberFormat format{};
  /// Each further replica computes in a thread of its own, as devices need it. Else the replicas compute one after
  /// another, so that they draw from the CPU's random generator in one order.
  bool has_threads = false;
  std::int64_t seed = 0;  ///< For the random generators of the further replicas' GPUs.
};

/// The instances of a job's module that share the batches of a rank, as in torch.nn.DataParallel. The first instance is
/// the module that is trained: it has the optimizers, callbacks and checkpoints. Before each batch the others get the
/// values of its parameters and buffers. What they do to buffers is lost.
///
/// The gradients of the replicas' parameters flow into those of the first instance, in the backward pass, before
/// anything is told that a gradient is there.
///
/// A batch of B samples is divided as by torch.chunk: each replica gets the next ceil(B / replicas) samples until none
/// are left. An exception of a replica is thrown once all have ended; that of the first in order, if several throw.
/// Metrics that replicas log count with the sizes of their parts. Only the first one's images are shown.
class ModuleReplicas {
 public:
  /// `first` is on `device`, and outlives the object. Its parameters need gradients as they will in the training.
  /// Throws InvalidJob when a replica's parameters or buffers are not those of `first` in name, shape and type.
  ModuleReplicas(Module& first, torch::Device device, std::vector<Replica> others, const ReplicaOptions& options);
  ~ModuleReplicas();
  ModuleReplicas(const ModuleReplicas&) = delete;
  ModuleReplicas& operator=(const ModuleReplicas&) = delete;

  /// How many there are, with the first one.
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(members_.size()); }
  /// Sets the source of the facts that modules ask for; nullptr: none.
  void set_rank_context(RankContext* context);

  /// The outputs of the replicas' training_step() as one, on the first one's device and with history: the mean of the
  /// losses, weighted by samples, and of each value its parts one after another along the first dimension. Scalars
  /// become a tensor of one number for each replica. Throws std::invalid_argument where replicas return different
  /// values.
  [[nodiscard]] StepOutput training_step(const Batch& batch, std::int64_t batch_index, const std::string& turn);
  void validation_step(const Batch& batch, std::int64_t batch_index);
  void test_step(const Batch& batch, std::int64_t batch_index);
  [[nodiscard]] std::map<std::string, torch::Tensor> predict_step(const Batch& batch, std::int64_t batch_index);

 private:
  struct Member {
    Module* module;
    torch::Device device;
    std::vector<torch::nn::Module*> parts;  // the module and its submodules
    std::shared_ptr<Module> owner{};        // nullptr for the first one
    std::vector<torch::Tensor> tensors{};   // its parameters, then its buffers; none for the first one
    std::vector<torch::Tensor> values{};    // their memory, with versions of their own
    RecordedMetrics metrics{};
    std::optional<RankContext> context{};
  };
  using Step = std::function<void(std::size_t place, Module& module, const Batch& part)>;

  void link_gradients(Member& member);
  std::vector<std::int64_t> run(const Batch& batch, const std::string& turn, const Step& step);
  std::exception_ptr call(const std::vector<Batch>& parts, const Step& step);
  void copy_first(Member& member);
  void note_versions();
  void seed_generators();

  std::vector<Member> members_;  // the first one is the first
  ReplicaOptions options_;
  RankContext* context_ = nullptr;
  std::vector<torch::Tensor> sources_;         // the first one's parameters, then its buffers
  std::vector<std::int64_t> copied_versions_;  // of its parameters
  std::int64_t drawn_step_ = -1;               // the step of the last training_step()
  std::int64_t draws_ = 0;                     // how many calls came before it in that step
};

}  // namespace trainyard::train
