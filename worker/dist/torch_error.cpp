#include "worker/dist/torch_error.hpp"

#include <c10/util/Exception.h>

#include <algorithm>

namespace trainyard::dist {
namespace {

constexpr std::string_view nccl_last_error = "\nLast error:\n";

}  // namespace

std::string first_line(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  text = text.substr(0, text.find('\n'));
  // "[../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer"
  if (!text.empty() && text.front() == '[') {
    if (const auto end = text.find("] "); end != std::string_view::npos) text.remove_prefix(end + 2);
  }
  return std::string{text};
}

std::string message_of(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string_view text = torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  std::string message = first_line(text);
  if (const auto last = text.find(nccl_last_error); last != std::string_view::npos) {
    const std::string cause = first_line(text.substr(last + nccl_last_error.size()));
    if (!cause.empty()) message += ": " + cause;
  }
  return message;
}

}  // namespace trainyard::dist
