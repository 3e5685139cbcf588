#pragma once

#include <stdexcept>
#include <utility>

#include "common/result.hpp"

namespace trainyard::strategy {

/// Thrown by a layer whose exchange with the other ranks failed, through the forward or the backward pass, which have
/// no other way to say so.
class ExchangeFailed final : public std::runtime_error {
 public:
  explicit ExchangeFailed(Error error) : std::runtime_error{error.message}, error_{std::move(error)} {}
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  Error error_;
};

}  // namespace trainyard::strategy
