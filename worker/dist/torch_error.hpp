#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace trainyard::dist {

/// The first line of torch's or Gloo's error text, without the source location at its beginning.
[[nodiscard]] std::string first_line(std::string_view text);
/// The first line of an exception's message, without the stack that torch's own exceptions contain. The line in which
/// NCCL names the call that failed follows it, where there is one.
[[nodiscard]] std::string message_of(const std::exception& error);

}  // namespace trainyard::dist
