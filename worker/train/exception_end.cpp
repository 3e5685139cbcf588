#include "worker/train/exception_end.hpp"

#include <fmt/format.h>

#include "api/contract.hpp"
#include "include/trainyard/options.hpp"
#include "worker/dist/failed_part.hpp"
#include "worker/dist/torch_error.hpp"
#include "worker/train/ending.hpp"
#include "worker/train/group_error.hpp"

namespace trainyard::train {

namespace {

rank::RankEnd end_of_error(const std::exception& error, const std::string& device) {
  if (dynamic_cast<const InvalidJob*>(&error) != nullptr)
    return end_of(Stage::spec, {.kind = ErrorKind::invalid, .message = error.what(), .retry_after = {}});
  if (const auto* of_group = dynamic_cast<const GroupError*>(&error)) return end_of(Stage::step, of_group->error());
  const std::string message = dist::message_of(error);
  switch (dist::failed_part(error)) {
    case dist::FailedPart::device:
      return {.exit_code = contract::exit_device,
              .reason = "DeviceFailed",
              .message = fmt::format("{} failed: {}", device, message),
              .culprit = {}};
    case dist::FailedPart::device_memory:
      return {.exit_code = contract::exit_failure,
              .reason = "DeviceOutOfMemory",
              .message = fmt::format("{} has too little memory for this program: {}", device, message),
              .culprit = {}};
    case dist::FailedPart::communication:
      return {.exit_code = contract::exit_peer_lost, .reason = "PeerLost", .message = message, .culprit = {}};
    case dist::FailedPart::program:
      break;
  }
  return {.exit_code = contract::exit_failure, .reason = "TrainingFailed", .message = message, .culprit = {}};
}

}  // namespace

rank::RankEnd end_of_exception(const std::exception_ptr& thrown, const std::string& device) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return end_of_error(error, device);
  } catch (...) {
    return {.exit_code = contract::exit_failure,
            .reason = "TrainingFailed",
            .message = "the program threw something that is no std::exception",
            .culprit = {}};
  }
}

}  // namespace trainyard::train
