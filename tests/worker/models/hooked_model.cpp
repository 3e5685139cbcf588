// A training program whose model has a communication hook, settings of DDP or samplers of its own, or calls a
// collective on one rank alone, for comm_hook_rank_test.
#include <trainyard/trainyard.hpp>

#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace {

using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroup>;

/// Gives zeros of `dtype` in the gradients' place, once all ranks have called.
class ZeroHook final : public c10d::CppCommHookInterface<ProcessGroup> {
 public:
  ZeroHook(const ProcessGroup& process_group, torch::ScalarType dtype)
      : CppCommHookInterface{process_group}, dtype_{dtype} {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    std::vector<torch::Tensor> zeros{torch::zeros({bucket.getBuffer().numel()}, dtype_)};
    return state_->allreduce(zeros)->getFuture();
  }

 private:
  torch::ScalarType dtype_;
};

/// Throws.
class BadHook final : public c10d::CppCommHookInterface<ProcessGroup> {
 public:
  using CppCommHookInterface::CppCommHookInterface;
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& /*bucket*/) override {
    throw std::out_of_range{"level 9 of 4"};
  }
};

class Zeros final : public trainyard::Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return 100; }
  [[nodiscard]] trainyard::Batch gather(const torch::Tensor& ids) const override {
    return {.inputs = torch::zeros({ids.size(0), 1}), .targets = {}, .ids = ids};
  }
};

/// options.hook: "zeros"; "doubles" for zeros of another dtype than the gradients'; "throws"; "none". Training fails
/// once the weight has changed. options.gathersAlone: rank 0 gathers in its first step, and no other rank does.
/// options.keepsBuffers: by configure_ddp() buffers are not broadcast, and training fails if this rank's is.
/// options.ownSamplers: rank r has a sampler of 8 (r + 1) samples, and training fails in a step for which it has none.
class HookedModel final : public trainyard::Module {
 public:
  explicit HookedModel(const trainyard::Options& options)
      : hook_{options.text("hook", "none")},
        gathers_alone_{options.boolean("gathersAlone", false)},
        keeps_buffers_{options.boolean("keepsBuffers", false)},
        has_own_samplers_{options.boolean("ownSamplers", false)},
        weight_{register_parameter("weight", torch::ones({3}))},
        own_{keeps_buffers_ ? register_buffer("own", torch::zeros({1})) : torch::Tensor{}} {}

  [[nodiscard]] std::optional<trainyard::Datasets> open_datasets(const trainyard::DataSource& source) override {
    if (!has_own_samplers_) return std::nullopt;
    return trainyard::Datasets{.train = std::make_unique<Zeros>(),
                               .sampler = trainyard::make_sequential_sampler(8 * (source.rank + 1))};
  }
  [[nodiscard]] trainyard::StepOutput training_step(const trainyard::Batch& batch,
                                                    std::int64_t /*batch_index*/) override {
    if (batch.size() == 0) throw std::runtime_error{"a batch without samples"};
    if (gathers_alone_ && rank() == 0) std::ignore = all_gather(weight_.detach());
    if (!torch::equal(weight_, torch::ones({3}))) throw std::runtime_error{"the weight has changed"};
    if (keeps_buffers_) {
      if (global_step() > 0 && own_.item<std::int64_t>() != rank())
        throw std::runtime_error{"the buffer was broadcast"};
      own_.fill_(rank());
    }
    return weight_.sum();
  }
  void configure_ddp(trainyard::DdpSettings& settings) override { settings.broadcast_buffers = !keeps_buffers_; }
  [[nodiscard]] std::shared_ptr<c10d::CommHookInterface> configure_comm_hook(const ProcessGroup& group) override {
    if (hook_ == "none") return nullptr;
    if (hook_ == "throws") return std::make_shared<BadHook>(group);
    return std::make_shared<ZeroHook>(group, hook_ == "zeros" ? torch::kFloat : torch::kDouble);
  }

 private:
  std::string hook_;
  bool gathers_alone_;
  bool keeps_buffers_;
  bool has_own_samplers_;
  torch::Tensor weight_;
  torch::Tensor own_;
};

void set(const char* name, const char* value) {
  setenv(name, value, 1);  // NOLINT(concurrency-mt-unsafe): there are no threads yet
}

bool is_set(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): as above
  return value != nullptr && *value != '\0';
}

}  // namespace

/// The main() of a program for a cluster manager that Trainyard does not know: its variables are OURS_RANK and
/// OURS_RANKS.
int main(int argc, char** argv) {
  if (!is_set("RANK") && is_set("OURS_RANK")) {
    set("RANK", std::getenv("OURS_RANK"));         // NOLINT(concurrency-mt-unsafe): as above
    set("WORLD_SIZE", std::getenv("OURS_RANKS"));  // NOLINT(concurrency-mt-unsafe): as above
    set("LOCAL_RANK", "0");
    set("LOCAL_WORLD_SIZE", "1");
    set("MASTER_ADDR", "127.0.0.1");
  }
  trainyard::Models models;
  models.add<HookedModel>("hooked_model");
  return trainyard::run_program(models, argc, argv);
}
