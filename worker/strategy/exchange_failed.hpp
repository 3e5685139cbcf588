#pragma once

#include <stdexcept>
#include <utility>

#include "common/result.hpp"

namespace trainyard::strategy {

/// Thrown when an exchange with the other ranks fails that a layer or a function of the module has begun: the forward
/// pass, the backward pass and the module can report it only by an exception. The worker does not take it for a failure
/// of the module.
class ExchangeFailed final : public std::runtime_error {
 public:
  explicit ExchangeFailed(Error error) : std::runtime_error{error.message}, error_{std::move(error)} {}
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  Error error_;
};

}  // namespace trainyard::strategy
