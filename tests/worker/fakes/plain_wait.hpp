#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <exception>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace trainyard::fakes {

/// A strategy::WaitForWork that waits as long as the collective takes.
inline Result<void> plain_wait(const c10::intrusive_ptr<c10d::Work>& work, std::string_view what) {
  try {
    work->wait();
    return {};
  } catch (const std::exception& error) {
    return fail(ErrorKind::unavailable, std::string{what} + ": " + error.what());
  }
}

}  // namespace trainyard::fakes
