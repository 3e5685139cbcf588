#pragma once

#include <stdexcept>
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

}  // namespace trainyard::strategy
