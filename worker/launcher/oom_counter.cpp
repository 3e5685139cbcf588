#include "worker/launcher/oom_counter.hpp"

#include <charconv>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace trainyard::launcher {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

/// The path in /proc/self/cgroup's entry of cgroup v2, "0::/path".
std::string own_cgroup() {
  const std::string text = read_file("/proc/self/cgroup");
  const auto start = text.find("0::");
  if (start == std::string::npos) return "";
  return text.substr(start + 3, text.find('\n', start) - start - 3);
}

}  // namespace

std::int64_t oom_kills_in(std::string_view text) {
  constexpr std::string_view key = "oom_kill ";
  for (auto position = text.find(key); position != std::string_view::npos; position = text.find(key, position + 1)) {
    if (position != 0 && text[position - 1] != '\n') continue;
    const std::string_view digits = text.substr(position + key.size());
    std::int64_t count = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), count);
    return count;
  }
  return 0;
}

std::int64_t read_oom_kills() {
  std::int64_t kills = 0;
  for (const std::string& path :
       {"/sys/fs/cgroup" + own_cgroup() + "/memory.events", std::string{"/sys/fs/cgroup/memory/memory.oom_control"}}) {
    kills += oom_kills_in(read_file(path));
  }
  return kills;
}

}  // namespace trainyard::launcher
