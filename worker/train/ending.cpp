#include "worker/train/ending.hpp"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "api/contract.hpp"
#include "include/trainyard/options.hpp"
#include "worker/dist/torch_error.hpp"
#include "worker/strategy/exchange_failed.hpp"

namespace trainyard::train {
namespace {

struct Meaning {
  int exit_code = contract::exit_failure;
  std::string_view reason;
};

/// True for errors that only the user can remove, so that a restart is no help.
bool is_for_the_user(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid:
    case ErrorKind::not_found:
    case ErrorKind::unauthorized:
    case ErrorKind::forbidden:
    case ErrorKind::corrupt:
      return true;
    default:
      return false;
  }
}

Meaning meaning_of(Stage stage, ErrorKind kind) {
  switch (stage) {
    case Stage::spec:
      return {contract::exit_do_not_restart, "InvalidSpec"};
    case Stage::device:
      return kind == ErrorKind::unavailable ? Meaning{contract::exit_device, "DeviceMissing"}
                                            : Meaning{contract::exit_do_not_restart, "NoCuda"};
    case Stage::rendezvous:
      if (kind == ErrorKind::conflict) return {contract::exit_device, "DevicesDiffer"};
      if (kind == ErrorKind::invalid) return {contract::exit_do_not_restart, "InvalidEnvironment"};
      if (kind == ErrorKind::cancelled) return {contract::exit_peer_lost, "PeerLost"};
      return {contract::exit_rendezvous, "RendezvousFailed"};
    case Stage::data:
      if (is_for_the_user(kind)) return {contract::exit_do_not_restart, "InvalidData"};
      return is_transient(kind) ? Meaning{contract::exit_storage, "StorageFailed"}
                                : Meaning{contract::exit_failure, "DataFailed"};
    case Stage::save:
      // Credentials and policies may change while training runs. The storage has let this run in before, so that a
      // restart may help.
      if (kind == ErrorKind::unauthorized || kind == ErrorKind::forbidden)
        return {contract::exit_storage, "StorageFailed"};
      [[fallthrough]];
    case Stage::checkpoint:
      if (kind == ErrorKind::conflict) return {contract::exit_fenced, "Fenced"};
      if (is_for_the_user(kind)) return {contract::exit_do_not_restart, "InvalidCheckpoint"};
      if (kind == ErrorKind::cancelled) return {contract::exit_peer_lost, "PeerLost"};
      return {contract::exit_storage, "StorageFailed"};
    case Stage::step:
      // The ranks' models differ, and would differ again after a restart.
      if (kind == ErrorKind::invalid) return {contract::exit_do_not_restart, "ModelsDiffer"};
      if (kind == ErrorKind::corrupt) return {contract::exit_failure, "ParametersDiffer"};
      return {contract::exit_peer_lost, "PeerLost"};
  }
  return {contract::exit_failure, "Failed"};
}

}  // namespace

rank::RankEnd end_of(Stage stage, const Error& error) {
  Meaning meaning = meaning_of(stage, error.kind);
  const dist::FailedPart part = dist::failed_part_of_text(error.message);
  const bool moves_state = stage == Stage::save || stage == Stage::checkpoint;
  // A save copies from the device and a restore to it, which may be the first to show that the device has failed.
  const bool is_of_peer = error.kind == ErrorKind::cancelled;
  if (moves_state && part == dist::FailedPart::device && !is_of_peer) meaning = {contract::exit_device, "DeviceFailed"};
  // Both may also take memory of the device. The storage is not at fault where there is none.
  if (moves_state && error.kind == ErrorKind::internal && part == dist::FailedPart::device_memory)
    meaning = {contract::exit_failure, "DeviceOutOfMemory"};
  return {
      .exit_code = meaning.exit_code, .reason = std::string{meaning.reason}, .message = error.message, .culprit = {}};
}

rank::RankEnd preempted(const Stop& stop) {
  std::string message = fmt::format("stopped as asked after step {}", stop.step);
  if (!stop.is_saving) {
    message += "; nothing was saved: checkpoint.uri is not set";
  } else {
    if (!stop.has_trained) message += ", before this attempt's first";
    if (!stop.saved_as.empty()) {
      message += ", saved as " + stop.saved_as;
    } else if (stop.has_trained) {
      message += "; it was not saved because it is not finite: training goes on from the checkpoint before";
    }
  }
  return {.exit_code = contract::exit_preempted, .reason = "Preempted", .message = message, .culprit = {}};
}

rank::RankEnd ended_by(const NonFiniteStep& bad) {
  const std::string turn = bad.turn.empty() ? "" : fmt::format(", in the turn of the optimizer {}", bad.turn);
  const std::string what = fmt::format("the loss of rank {} is {} in step {}{}", bad.rank, bad.loss, bad.step, turn);
  if (bad.is_rewound) {
    return {.exit_code = contract::exit_failure,
            .reason = "NonFiniteLoss",
            .message = what + "; training.onNonFiniteLoss is rewind: the group goes back to its newest checkpoint",
            .culprit = {}};
  }
  return {.exit_code = contract::exit_do_not_restart,
          .reason = "NonFiniteLoss",
          .message = what +
                     "; training.onNonFiniteLoss is stop: try a smaller optimizer.lr or gradientClip, or look at the "
                     "data of that step",
          .culprit = {}};
}

rank::RankEnd completed(const Completion& completion) {
  std::string message = fmt::format("trained {} steps", completion.step);
  if (!completion.reason_to_stop.empty()) message += fmt::format(", {}", completion.reason_to_stop);
  for (const auto& [name, value] : completion.validation) message += fmt::format(", {} {:.4g}", name, value);
  if (completion.loss) message += fmt::format(", training loss {:.4g}", *completion.loss);
  if (completion.skipped_steps.value_or(0) > 0)
    message +=
        fmt::format("; steps of this attempt that were left out, in whole or in part, since a loss was not finite: {}",
                    *completion.skipped_steps);
  if (!completion.skipped_steps && completion.loss && !std::isfinite(*completion.loss))
    message +=
        "; a loss since the last log line was not finite, and the weights may be useless: with "
        "training.onNonFiniteLoss "
        "stop, rewind or skip they would not be";
  return {.exit_code = contract::exit_success, .reason = "Completed", .message = message, .culprit = {}};
}

rank::RankEnd already_complete(const std::string& uri, bool is_ended_early) {
  const std::string_view end = is_ended_early ? ", which a callback or earlyStopping ended before its last step" : "";
  const std::string_view more = is_ended_early ? "name an earlier checkpoint in checkpoint.resume, with another uri"
                                               : "raise training.epochs or training.maxSteps";
  return {.exit_code = contract::exit_success,
          .reason = "AlreadyComplete",
          .message = fmt::format("already complete: {} is the end of this training{}. To train on, {}; to train "
                                 "afresh, set checkpoint.resume to none",
                                 uri, end, more),
          .culprit = {}};
}

tl::unexpected<rank::RankEnd> end_rank(Stage stage, const Error& error) {
  return tl::unexpected(end_of(stage, error));
}

namespace {

using namespace std::chrono_literals;

constexpr auto culprit_look_interval = 20ms;
constexpr int culprit_looks_max = 100;

}  // namespace

tl::unexpected<rank::RankEnd> lost(const rank::RankLink& link, Stage stage, const Error& error) {
  const bool may_be_a_peer = stage == Stage::step || is_transient(error.kind) || error.kind == ErrorKind::cancelled;
  if (!may_be_a_peer) return end_rank(stage, error);
  // In a save a lost peer looks like a storage failure until the launchers have exchanged which rank died.
  const bool is_storage = stage == Stage::checkpoint || stage == Stage::save;
  for (int look = 0; is_storage && look < culprit_looks_max && !link.group_failure(); ++look) {
    std::this_thread::sleep_for(culprit_look_interval);
  }
  if (auto failure = link.group_failure()) return tl::unexpected(*failure);
  return end_rank(stage, error);
}

namespace {

rank::RankEnd end_of_error(const std::exception& error, const std::string& device, const std::string& call) {
  if (dynamic_cast<const InvalidJob*>(&error) != nullptr)
    return end_of(Stage::spec, {.kind = ErrorKind::invalid, .message = error.what(), .retry_after = {}});
  if (const auto* failed = dynamic_cast<const strategy::ExchangeFailed*>(&error))
    return end_of(Stage::step, failed->error());
  const std::string message = dist::message_of(error);
  const std::string placed = call.empty() ? message : fmt::format("{}: {}", call, message);
  switch (dist::failed_part(error)) {
    case dist::FailedPart::device:
      return {.exit_code = contract::exit_device,
              .reason = "DeviceFailed",
              .message = fmt::format("{} failed: {}", device, message),
              .culprit = {}};
    case dist::FailedPart::device_memory:
      return {.exit_code = contract::exit_failure,
              .reason = "DeviceOutOfMemory",
              .message = fmt::format("{} has too little memory for this program: {}", device, placed),
              .culprit = {}};
    case dist::FailedPart::communication:
      return {.exit_code = contract::exit_peer_lost, .reason = "PeerLost", .message = message, .culprit = {}};
    case dist::FailedPart::program:
      break;
  }
  // A kernel's mistake shows at whichever call waits for the device next.
  const bool is_of_kernel = dynamic_cast<const c10::AcceleratorError*>(&error) != nullptr;
  const std::string where = is_of_kernel && !call.empty() ? fmt::format("{}, seen in {}", message, call) : placed;
  return {.exit_code = contract::exit_failure, .reason = "TrainingFailed", .message = where, .culprit = {}};
}

}  // namespace

rank::RankEnd end_of_exception(const std::exception_ptr& thrown, const std::string& device, const std::string& call) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return end_of_error(error, device, call);
  } catch (...) {
    return {.exit_code = contract::exit_failure,
            .reason = "TrainingFailed",
            .message = (call.empty() ? "the program" : call) + " threw something that is no std::exception",
            .culprit = {}};
  }
}

}  // namespace trainyard::train
