#include "cli/log_tail.hpp"

#include <algorithm>
#include <fstream>

namespace trainyard::cli {
namespace {

constexpr std::int64_t chunk_bytes_max = 1 << 20;

}  // namespace

std::string LogTail::read() {
  std::ifstream stream{file_, std::ios::binary | std::ios::ate};
  if (!stream) return {};
  const auto size = static_cast<std::int64_t>(stream.tellg());
  std::string bytes(static_cast<std::size_t>(std::clamp<std::int64_t>(size - position_, 0, chunk_bytes_max)), '\0');
  stream.seekg(position_);
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(stream.gcount()));
  position_ += stream.gcount();
  return bytes;
}

std::string LogTail::read_lines() {
  part_ += read();
  const auto end = part_.rfind('\n');
  if (end == std::string::npos) return {};
  std::string lines = part_.substr(0, end + 1);
  part_.erase(0, end + 1);
  return lines;
}

std::string LogTail::read_soon() {
  const bool is_overdue = !part_.empty();
  std::string lines = read_lines();
  return is_overdue ? lines + rest() : lines;
}

std::string with_prefix(const std::string& lines, const std::string& prefix) {
  std::string text;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size() - 1);
    text += prefix;
    text.append(lines, begin, end + 1 - begin);
    begin = end + 1;
  }
  return text;
}

}  // namespace trainyard::cli
