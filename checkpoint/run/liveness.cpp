#include "checkpoint/run/liveness.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <vector>

#include "checkpoint/format/layout.hpp"
#include "checkpoint/format/sealed_json.hpp"
#include "checkpoint/run/inventory.hpp"
#include "common/logging.hpp"

namespace trainyard::checkpoint {
namespace {

// Identifies this machine's boot and this process's pid namespace. Empty where /proc does not show them.
std::string place_of_processes() {
  std::ifstream file{"/proc/sys/kernel/random/boot_id"};
  std::string boot;
  file >> boot;
  std::array<char, 64> name{};
  const ssize_t length = ::readlink("/proc/self/ns/pid", name.data(), name.size());
  if (boot.empty() || length <= 0) return {};
  return fmt::format("{}/{}", boot, std::string_view{name.data(), static_cast<std::size_t>(length)});
}

// The time at which the process `pid` started, in the kernel's ticks since boot; empty where there is no such process.
std::string start_of(std::string_view pid) {
  std::ifstream file{fmt::format("/proc/{}/stat", pid)};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  // The second field is the program's name in parentheses, which may contain anything; the start is the 22nd field.
  const std::size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return {};
  constexpr int fields_before = 19;
  std::size_t begin = end_of_name + 2;
  for (int i = 0; i < fields_before && begin != 0; ++i) begin = text.find(' ', begin) + 1;
  return begin == 0 ? "" : text.substr(begin, text.find(' ', begin) - begin);
}

}  // namespace

std::string this_process() {
  const std::string place = place_of_processes();
  const std::string pid = std::to_string(::getpid());
  const std::string start = start_of(pid);
  return place.empty() || start.empty() ? "" : fmt::format("{}/{}/{}", place, pid, start);
}

std::optional<bool> is_running(std::string_view process) {
  const std::string place = place_of_processes();
  if (place.empty() || !process.starts_with(place + "/")) return std::nullopt;
  process.remove_prefix(place.size() + 1);
  const std::size_t slash = process.find('/');
  const std::string_view pid = process.substr(0, slash);
  const bool is_number = !pid.empty() && std::ranges::all_of(pid, [](char c) { return c >= '0' && c <= '9'; });
  if (slash == std::string_view::npos || !is_number) return std::nullopt;
  return start_of(pid) == process.substr(slash + 1);
}

std::optional<std::chrono::milliseconds> alive_for(const Liveness& liveness, Time now) {
  if (liveness.is_running)
    return *liveness.is_running ? std::optional<std::chrono::milliseconds>{sign_valid_for} : std::nullopt;
  if (liveness.last_sign <= now - sign_valid_for) return std::nullopt;
  // The sign comes from a file, and any number in it is possible: the sums below must not overflow.
  constexpr std::chrono::hours ahead_max{24 * 365};
  return std::min<Time>(liveness.last_sign, now + ahead_max) - (now - sign_valid_for);
}

Result<std::optional<Liveness>> read_liveness(storage::Store& store, const Claim& claim) {
  if (claim.process.empty()) return std::nullopt;
  Liveness liveness{.last_sign = claim.time, .is_running = is_running(claim.process)};
  const auto text = storage::get_text(store, alive_key(claim.generation));
  if (!text && !says_absent(text.error().kind)) return tl::unexpected(text.error());
  const auto said = text.and_then(unseal).and_then([](const nlohmann::json& object) {
    return read_fields("a sign of life", [&] { return object.at("timeMilliseconds").get<std::int64_t>(); });
  });
  // A sign that cannot be read is ignored: the run puts another one soon.
  if (said) liveness.last_sign = std::max(liveness.last_sign, Time{std::chrono::milliseconds{*said}});
  return liveness;
}

SignsOfLife::SignsOfLife(storage::Store& store, const Clock& clock, std::int64_t generation,
                         std::chrono::milliseconds interval)
    : store_{store},
      clock_{clock},
      generation_{generation},
      interval_{interval},
      thread_{[this](const std::stop_token& stop) { run(stop); }} {}

void SignsOfLife::run(const std::stop_token& stop) {
  bool is_failing = false;
  while (!stop.stop_requested()) {
    const auto put = storage::put_text(store_, alive_key(generation_),
                                       seal({{"timeMilliseconds", clock_.now().time_since_epoch().count()}}));
    // Without a valid sign another run may claim, which fences this one.
    if (!put && !is_failing)
      logging::warn("this run cannot show that it is alive: another one may take over its checkpoints",
                    {{"error", put.error().message}});
    is_failing = !put;
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, stop, interval_, [] { return false; });
  }
}

}  // namespace trainyard::checkpoint
