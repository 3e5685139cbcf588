#pragma once

#include <stdexcept>
#include <utility>

#include "common/result.hpp"

namespace trainyard::train {

/// Thrown through a module's functions where a collective that the module began has failed: an error of the group, and
/// none of the module.
class GroupError final : public std::runtime_error {
 public:
  explicit GroupError(Error error) : std::runtime_error{error.message}, error_{std::move(error)} {}
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  Error error_;
};

}  // namespace trainyard::train
