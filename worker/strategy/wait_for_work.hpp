#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <functional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "common/result.hpp"

namespace trainyard::strategy {

/// Thrown where an exchange with the other ranks failed that a layer or a module's function began: through the forward
/// pass, the backward pass or the module, which have no other way to say so. It is no failure of the module.
class ExchangeFailed final : public std::runtime_error {
 public:
  explicit ExchangeFailed(Error error) : std::runtime_error{error.message}, error_{std::move(error)} {}
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  Error error_;
};

/// dist::wait_or_fail with its link and deadline filled in, or dist::StepsInFlight::follow, which only orders a
/// device's current stream after `work`. `what` names the collective in messages.
using WaitForWork = std::function<Result<void>(const c10::intrusive_ptr<c10d::Work>& work, std::string_view what)>;

}  // namespace trainyard::strategy
