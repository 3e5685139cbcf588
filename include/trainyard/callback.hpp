#pragma once

#include <torch/types.h>

#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace trainyard {

class Module;

/// Follows a training, beside the module: a module registers callbacks in configure_callbacks(). Jobs whose
/// training.task is not fit have none. The worker calls the functions on every rank, from the training thread, each
/// callback in the order of registration. `module` is the model that trains: its facts, all_gather() and process_set()
/// may be used in all functions but on_exception(), where other ranks may be gone. An exception ends the rank as one of
/// the module does.
class Callback {
 public:
  using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

  virtual ~Callback() = default;
  /// Names the callback in logs, and its state in checkpoints. Unique among a module's callbacks, equal in every run of
  /// the program.
  [[nodiscard]] virtual std::string name() const = 0;

  /// The first step of this attempt is next; a checkpoint is already restored, and weights are loaded.
  virtual void on_train_start(Module& /*module*/) {}
  /// An optimizer is about to make its step, or to leave it out by onNonFiniteLoss skip or 16-mixed: no change made
  /// here alters that. name: that of configure_named_optimizers(); empty for the only optimizer. parameters: those that
  /// the optimizer trains, by name; the gradients of others are of another moment. module.log() may be called here.
  ///
  /// grad() is without the loss scale of 16-mixed and before gradientClip, and may be changed in place, alike on all
  /// ranks: with ddp the mean over the ranks and the batches of the step, with other strategies as in
  /// docs/own-model.md, "Callbacks". grad() is undefined for a parameter that no loss used, and with sharded for all.
  virtual void on_before_optimizer_step(Module& /*module*/, const std::string& /*name*/,
                                        const NamedTensors& /*parameters*/) {}
  /// A step is done. loss: scalar on the rank's device, without autograd history, the mean over the step's batches on
  /// this rank, not-a-number if it had none. To read it waits for the device. module.log() may be called here.
  virtual void on_step_end(Module& /*module*/, const torch::Tensor& /*loss*/) {}
  /// The last step of an epoch is done, and its metrics are logged. Comes before the epoch's validation.
  virtual void on_epoch_end(Module& /*module*/) {}
  /// A validation is done. metrics: its values over all ranks, by name, equal on every rank.
  virtual void on_validation_end(Module& /*module*/, const std::map<std::string, double>& /*metrics*/) {}
  /// The training has reached its end, with its last checkpoint. Not called when a training was stopped from outside. A
  /// rank that fails in it, or is lost, ends the attempt; the next attempt finds the training at its end and does not
  /// call it.
  virtual void on_train_end(Module& /*module*/) {}
  /// This rank ends by `thrown`, an exception of the module, a callback or torch. It is not called for a failure of the
  /// storage, and for another rank's loss only when an all_gather() of the module has thrown it. An exception of this
  /// function is logged and changes nothing.
  virtual void on_exception(Module& /*module*/, const std::exception_ptr& /*thrown*/) {}

  /// The state that checkpoints keep. The worker asks once, before the first step: later functions must change these
  /// tensors in place, and a restored checkpoint is copied into them. Rank 0's are saved, and every rank gets them.
  /// Names are unique and equal in every run of the program, as are shapes and dtypes: a checkpoint with others does
  /// not fit. One value is a tensor of one element; text is a uint8 tensor of constant size.
  [[nodiscard]] virtual NamedTensors state() { return {}; }
  /// Called before the tensors of state() are saved, and after a checkpoint was copied into them. For a callback that
  /// keeps its values elsewhere.
  virtual void before_save() {}
  virtual void after_restore() {}

  /// True once stop_training() was called. Only the worker calls this.
  [[nodiscard]] bool wants_stop() const { return wants_stop_; }

 protected:
  /// Asks to end the training. All ranks end it after the same step, also when one rank alone asks: the step after the
  /// present one, because the wish travels with its flags. The training has then reached its end: it is validated, its
  /// last checkpoint is final, and the job succeeds. The wish is in no checkpoint: ask again in on_train_start() if a
  /// restart must not lose it. May be called in all functions but on_train_end() and on_exception().
  void stop_training() { wants_stop_ = true; }

 private:
  bool wants_stop_ = false;
};

}  // namespace trainyard
