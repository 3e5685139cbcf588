#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace trainyard::dist {

/// The first line of torch's or Gloo's text, without the place in their sources that it begins with.
[[nodiscard]] std::string first_line(std::string_view text);
/// The first line of an exception's message; for torch's own exceptions without the stack.
[[nodiscard]] std::string message_of(const std::exception& error);

}  // namespace trainyard::dist
