#pragma once

#include <torch/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "include/trainyard/callback.hpp"
#include "include/trainyard/module.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/observe/metric_sums.hpp"
#include "worker/rank/rank_link.hpp"
#include "worker/train/program_call.hpp"

namespace trainyard::train {

/// A module's callbacks, and whether one of them has ended the training. Used from the training thread. Throws what the
/// callbacks throw.
class Callbacks {
 public:
  /// Asks `module`, which outlives the object, for its callbacks. Throws InvalidJob for a callback that is
  /// nullptr, and for a name that is empty or given twice.
  explicit Callbacks(Module& module);

  [[nodiscard]] bool empty() const { return callbacks_.empty(); }

  /// The entries of a checkpoint. Throws InvalidJob for a tensor that is undefined or named twice.
  [[nodiscard]] std::vector<checkpoint::Entry> entries();
  void before_save() { each("before_save()", &Callback::before_save); }
  /// `is_ended`: the checkpoint's training was ended by a callback.
  void restore(bool is_ended);

  void train_start() { each("on_train_start()", &Callback::on_train_start, module_); }
  void before_optimizer_step(const std::string& name, const Callback::NamedTensors& parameters) {
    call("on_before_optimizer_step()", &Callback::on_before_optimizer_step, module_, name, parameters);
  }
  /// `losses`: the sum of the losses of `count` batches, 0 where there were none.
  void step_end(const torch::Tensor& losses, std::int64_t count);
  void epoch_end() { each("on_epoch_end()", &Callback::on_epoch_end, module_); }
  void validation_end(const observe::MetricValues& metrics) {
    each("on_validation_end()", &Callback::on_validation_end, module_, metrics);
  }
  void train_end() { each("on_train_end()", &Callback::on_train_end, module_); }
  /// Returns what `train` returns. An exception of it is told to all callbacks, and leaves this function.
  [[nodiscard]] rank::RankEnd watch(const std::function<rank::RankEnd()>& train);

  /// True when a callback of this rank asks to end the training.
  [[nodiscard]] bool wants_stop() const;
  /// Notes that some rank asks so: the training is over on all ranks.
  void end_training() { is_ended_ = true; }
  [[nodiscard]] bool is_ended() const { return is_ended_; }
  /// Why the training is over, as the end of a sentence; nothing while it goes on.
  [[nodiscard]] std::optional<std::string> reason_to_stop() const;

 private:
  /// Calls `function`, which messages name by `name` and the callback.
  template <typename... Parameters, typename... Arguments>
  void call(std::string_view name, void (Callback::*function)(Parameters...), Arguments&... arguments) {
    for (std::size_t place = 0; place < callbacks_.size(); ++place) {
      const ProgramCall of{" of the callback ", names_[place]};
      const ProgramCall call{name};
      (*callbacks_[place].*function)(arguments...);
    }
  }
  /// As call(), between two steps: messages name the step that is done too.
  template <typename... Parameters, typename... Arguments>
  void each(std::string_view name, void (Callback::*function)(Parameters...), Arguments&... arguments) {
    if (callbacks_.empty()) return;
    const ProgramCall after{" after step ", module_.global_step()};
    call(name, function, arguments...);
  }

  Module& module_;
  std::vector<std::shared_ptr<Callback>> callbacks_;
  std::vector<std::string> names_;  // of callbacks_
  bool is_ended_ = false;
  bool was_ended_before_ = false;  // by an earlier attempt
};

}  // namespace trainyard::train
