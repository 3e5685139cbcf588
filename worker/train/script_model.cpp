#include "worker/train/script_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/nn/functional/loss.h>
#include <torch/types.h>
#include <torch/version.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/interchange/weights.hpp"
#include "checkpoint/run/agreement.hpp"
#include "common/try.hpp"
#include "worker/dist/torch_error.hpp"

namespace trainyard::train {
namespace {

namespace F = torch::nn::functional;

constexpr const char* own_loss = "own";

/// Bytes in memory, which LibTorch reads as a file.
class MemoryFile final : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes) : bytes_{bytes} {}
  [[nodiscard]] std::size_t size() const override { return bytes_.size(); }
  std::size_t read(std::uint64_t position, void* into, std::size_t count, const char* /*what*/) const override {
    if (position >= bytes_.size()) return 0;
    const std::size_t read = std::min<std::size_t>(count, bytes_.size() - position);
    std::memcpy(into, bytes_.data() + position, read);
    return read;
  }

 private:
  std::span<const std::byte> bytes_;
};

/// A tensor of a script that is no parameter, with the slot that holds it.
struct BufferSlot {
  torch::jit::Module owner;
  std::string name;
  torch::Tensor buffer;
  /// The script may put another tensor into the slot. It then gets a copy in each pass, since autograd may keep what
  /// the pass has read.
  bool is_replaced = true;
  torch::Tensor given{};  ///< That copy, during a pass.
};

void adopt(torch::nn::Module& part, const torch::jit::Module& script, std::vector<BufferSlot>& buffers);

/// A submodule of a script. It has the script's own tensors, and hands its mode on to the script.
class ScriptPart final : public torch::nn::Module {
 public:
  ScriptPart(torch::jit::Module script, std::vector<BufferSlot>& buffers) : script_{std::move(script)} {
    adopt(*this, script_, buffers);
  }
  void train(bool on) override {
    torch::nn::Module::train(on);
    if (script_.hasattr("training")) script_.setattr("training", on);
  }

 private:
  torch::jit::Module script_;
};

/// Registers the tensors of `script` in `part`, and its submodules with theirs.
void adopt(torch::nn::Module& part, const torch::jit::Module& script, std::vector<BufferSlot>& buffers) {
  for (const auto& parameter : script.named_parameters(/*recurse=*/false))
    part.register_parameter(parameter.name, parameter.value, parameter.value.requires_grad());
  // Among them are tensors that Python's module has as plain attributes: they too move with the model.
  for (const auto& attribute : script.named_attributes(/*recurse=*/false)) {
    if (!attribute.value.isTensor() || !attribute.value.toTensor().defined()) continue;
    if (part.named_parameters(/*recurse=*/false).contains(attribute.name)) continue;
    part.register_buffer(attribute.name, attribute.value.toTensor());
    buffers.push_back({.owner = script, .name = attribute.name, .buffer = attribute.value.toTensor()});
  }
  for (const auto& child : script.named_children())
    part.register_module(child.name, std::make_shared<ScriptPart>(child.value, buffers));
}

[[noreturn]] void refuse_script(const std::string& why) {
  throw InvalidJob{"training.model.uri: the TorchScript file " + why};
}

torch::jit::Module read_script(std::span<const std::byte> bytes) {
  // Otherwise the interpreter wraps an exception in a text of many lines, of which the last says what failed.
  FLAGS_torch_jit_enable_rethrow_caught_exception = true;
  try {
    return torch::jit::load(std::make_shared<MemoryFile>(bytes), torch::kCPU);
  } catch (const std::exception& error) {
    refuse_script(fmt::format("cannot be read by LibTorch {}: write one by torch.jit.script(model).save(): {}",
                              TORCH_VERSION, dist::message_of(error)));
  }
}

class ScriptModel final : public Module {
 public:
  ScriptModel(std::span<const std::byte> bytes, const Options& options)
      : loss_{options.text("loss", "crossEntropy", {"crossEntropy", "mse", "l1", "bceWithLogits", own_loss})},
        script_{read_script(bytes)} {
    adopt(*this, script_, buffers_);
    const auto needs_gradient = [](const torch::Tensor& one) { return one.requires_grad(); };
    if (std::ranges::none_of(parameters(), needs_gradient))
      refuse_script("has no parameter to train: save the model without torch.jit.freeze()");
    check_forward();
    train(true);
  }

  void train(bool on) override {
    Module::train(on);
    if (script_.hasattr("training")) script_.setattr("training", on);
  }

  [[nodiscard]] StepOutput training_step(const Batch& batch, std::int64_t /*batch_index*/) override {
    return takes_targets() ? run(batch) : loss_of(run(batch), batch.targets);
  }

  StepOutput validation_step(const Batch& batch, std::int64_t /*batch_index*/) override {
    const torch::Tensor outputs = run(batch);
    log("val_loss", takes_targets() ? outputs : loss_of(outputs, batch.targets));
    // Targets of cross-entropy may also be the probabilities of the classes.
    if (loss_ == "crossEntropy" && batch.targets.scalar_type() == torch::kLong)
      log("val_accuracy", outputs.argmax(1).eq(batch.targets).to(torch::kFloat).mean());
    return {};
  }

  [[nodiscard]] std::map<std::string, torch::Tensor> predict_step(const Batch& batch,
                                                                  std::int64_t /*batch_index*/) override {
    if (takes_targets())
      refuse_script("has its own loss, so that it predicts nothing: forward() returns the loss alone");
    return {{"outputs", run(batch)}};
  }

 private:
  [[nodiscard]] bool takes_targets() const { return loss_ == own_loss; }

  /// Throws unless forward() can be called with what a batch has.
  void check_forward() const {
    const auto forward = script_.find_method("forward");
    if (!forward) refuse_script("has no forward()");
    const auto& arguments = forward->function().getSchema().arguments();
    const std::size_t given = takes_targets() ? 2 : 1;
    // The first argument is the module itself.
    const auto needed = std::count_if(arguments.begin() + 1, arguments.end(),
                                      [](const auto& argument) { return !argument.default_value(); });
    if (arguments.size() - 1 >= given && static_cast<std::size_t>(needed) <= given) return;
    refuse_script(fmt::format("has a forward() that needs {} arguments, and is given {}: {}", needed, given,
                              takes_targets()
                                  ? "the inputs and the targets, as options.loss is own"
                                  : "the inputs; with options.loss own it would be given the inputs and the targets"));
  }

  [[nodiscard]] torch::Tensor run(const Batch& batch) {
    // The fused kernels of LibTorch's profiling executor round otherwise than the first steps, in which it profiles: a
    // resumed run would not repeat the bits.
    const torch::jit::GraphOptimizerEnabledGuard no_optimization{false};
    std::vector<c10::IValue> arguments{batch.inputs};
    if (takes_targets()) arguments.emplace_back(batch.targets);
    give_buffers();
    const c10::IValue result = script_.forward(std::move(arguments));
    take_buffers();
    if (!result.isTensor())
      refuse_script(fmt::format("has a forward() that returned a {}: it has to return one tensor", result.tagKind()));
    return result.toTensor();
  }

  void give_buffers() {
    const torch::NoGradGuard no_grad;
    for (BufferSlot& slot : buffers_) {
      if (!slot.is_replaced) continue;
      slot.given = slot.buffer.clone();
      slot.owner.setattr(slot.name, slot.given);
    }
  }

  /// Takes what the script has left in a buffer's slot into the buffer itself, which checkpoints and the other ranks
  /// know.
  void take_buffers() {
    const torch::NoGradGuard no_grad;
    for (BufferSlot& slot : buffers_) {
      const torch::Tensor present = slot.owner.attr(slot.name).toTensor();
      if (present.is_same(slot.buffer)) continue;
      if (present.sizes() != slot.buffer.sizes())
        refuse_script(fmt::format("changes the shape of its buffer {}, which a checkpoint cannot follow", slot.name));
      slot.buffer.copy_(present);
      slot.is_replaced = !present.is_same(slot.given);
      if (!slot.is_replaced) slot.owner.setattr(slot.name, slot.buffer);
      slot.given.reset();
    }
  }

  [[nodiscard]] torch::Tensor loss_of(const torch::Tensor& outputs, const torch::Tensor& targets) const {
    if (!targets.defined())
      throw InvalidJob{fmt::format("training.model.options.loss: {} needs targets, and the data has none", loss_)};
    if (loss_ == "crossEntropy") return F::cross_entropy(outputs, targets);
    // torch would make both as large as the larger one, and compare each output with each target.
    if (outputs.sizes() != targets.sizes())
      throw InvalidJob{fmt::format(
          "training.model.options.loss: {} compares outputs with targets of the same shape, and the model gives [{}] "
          "for targets [{}]",
          loss_, fmt::join(outputs.sizes(), ", "), fmt::join(targets.sizes(), ", "))};
    const torch::Tensor expected = targets.to(outputs.dtype());
    if (loss_ == "mse") return F::mse_loss(outputs, expected);
    if (loss_ == "l1") return F::l1_loss(outputs, expected);
    return F::binary_cross_entropy_with_logits(outputs, expected);
  }

  std::string loss_;
  torch::jit::Module script_;
  std::vector<BufferSlot> buffers_;
};

/// A file in memory, with its digest.
struct FileBytes {
  std::vector<std::byte> bytes;
  std::string sha256;
};

/// The file of `spec`, whose digest is that of `spec` where it has one.
Result<FileBytes> read_file(const api::ModelSpec& spec, const storage::S3Options& s3) {
  const std::size_t slash = spec.uri.rfind('/');
  const auto store = TRY(storage::open_store(spec.uri.substr(0, slash), s3));
  auto bytes = TRY(store->get(spec.uri.substr(slash + 1)));
  FileBytes file{.bytes = std::move(bytes), .sha256 = {}};
  checkpoint::Sha256 digest;
  digest.add(file.bytes);
  file.sha256 = digest.finish();
  if (spec.sha256.empty() || spec.sha256 == file.sha256) return file;
  return fail(ErrorKind::corrupt,
              fmt::format("the SHA-256 of {} is {}, and {} was asked for: correct model.sha256, or name the file that "
                          "has it",
                          spec.uri, file.sha256, spec.sha256));
}

}  // namespace

std::shared_ptr<Module> make_script_model(std::span<const std::byte> bytes, const Options& options) {
  return std::make_shared<ScriptModel>(bytes, options);
}

Result<ScriptFile> load_script_model(const api::ModelSpec& spec, const storage::S3Options& s3,
                                     const checkpoint::StartPatience& patience, const Clock& clock) {
  const auto file =
      checkpoint::ask_patiently(patience, clock, checkpoint::StartCall::state, [&] { return read_file(spec, s3); });
  if (!file) return fail("training.model.uri", file.error());
  try {
    const Options options{spec.options.dump()};
    auto model = make_script_model(file->bytes, options);
    options.check_all_asked("a TorchScript model");
    return ScriptFile{.model = std::move(model), .sha256 = file->sha256};
  } catch (const InvalidJob& error) {
    return fail(ErrorKind::invalid, error.what());
  }
}

Result<void> agree_on_script(const std::string& sha256, checkpoint::Communicator& communicator) {
  const auto gathered = TRY(checkpoint::gather_all(communicator, nlohmann::json(sha256)));
  for (std::size_t rank = 1; rank < gathered.size(); ++rank) {
    if (gathered[rank] == gathered[0]) continue;
    return fail(
        ErrorKind::io,
        fmt::format("training.model.uri: rank 0 has read a file with the SHA-256 {}, and rank {} one with {}: it "
                    "was replaced meanwhile, or is another one on that node. Give model.sha256",
                    gathered[0].get<std::string>(), rank, gathered[rank].get<std::string>()));
  }
  return {};
}

}  // namespace trainyard::train
