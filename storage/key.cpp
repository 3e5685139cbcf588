#include "storage/key.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/text.hpp"

namespace trainyard::storage {
namespace {

// S3 allows 1024 bytes for the prefix and the key together.
constexpr std::size_t key_bytes_max = 900;

}  // namespace

Result<void> check_key(std::string_view key) {
  const auto refuse = [&](std::string_view why) {
    return fail(ErrorKind::invalid, fmt::format("'{}' is not a key: {}", keep_beginning(key, 100), why));
  };
  if (key.empty()) return refuse("it is empty");
  if (key.size() > key_bytes_max) return refuse(fmt::format("it is longer than {} bytes", key_bytes_max));
  if (std::any_of(key.begin(), key.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
    return fail(ErrorKind::invalid, "a key holds control characters");
  }
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t end = std::min(key.find('/', begin), key.size());
    const std::string_view part = key.substr(begin, end - begin);
    if (part.empty()) return refuse("it has an empty part between its slashes");
    if (part.starts_with('.')) return refuse("one of its parts begins with a dot");
    begin = end + 1;
  }
  return {};
}

}  // namespace trainyard::storage
