#include "cli/hosts.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>

#include "api/contract.hpp"
#include "common/file_descriptor.hpp"
#include "common/text.hpp"
#include "common/try.hpp"

namespace trainyard::cli {
namespace {

constexpr std::int64_t slots_max = 1024;

/// ssh takes a name that begins with "-" for an option.
bool is_host_name(std::string_view name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view{"._-@"}.find(c) != std::string_view::npos;
  };
  return !name.empty() && name.front() != '-' && !name.ends_with('@') && std::ranges::all_of(name, is_allowed);
}

std::optional<std::int64_t> parse_slots(std::string_view text) {
  const auto slots = parse_number<std::int64_t>(text);
  return slots && *slots >= 1 && *slots <= slots_max ? slots : std::nullopt;
}

Result<void> check_hosts(std::string_view where, const std::vector<Host>& hosts) {
  if (hosts.empty()) return fail(ErrorKind::invalid, fmt::format("{} names no host", where));
  std::set<std::string> names;
  for (const Host& host : hosts) {
    if (names.insert(host.name).second) continue;
    return fail(ErrorKind::invalid,
                fmt::format("{} names {} twice: give all its slots in one place", where, host.name));
  }
  return {};
}

/// The address of this machine that `host` sees: that of the interface which leads there. Sends nothing.
Result<std::string> own_address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), "1", &hints, &found); error != 0) {
    return fail(ErrorKind::unavailable, fmt::format("looking up host {}, to find this machine's address for it: {}",
                                                    host, ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner{found, ::freeaddrinfo};
  // Connecting a datagram socket sends nothing: it asks the routing table.
  const FileDescriptor probe{::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  std::array<char, NI_MAXHOST> text{};
  if (!probe || ::connect(probe.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
    return fail(ErrorKind::unavailable,
                fmt::format("finding this machine's address towards host {}: {}", host, std::strerror(errno)));
  }
  if (const int error = ::getnameinfo(reinterpret_cast<const sockaddr*>(&own), size, text.data(), text.size(), nullptr,
                                      0, NI_NUMERICHOST);
      error != 0) {
    return fail(ErrorKind::unavailable,
                fmt::format("writing this machine's address towards host {}: {}", host, ::gai_strerror(error)));
  }
  return std::string{text.data()};
}

}  // namespace

Result<std::vector<Host>> parse_hosts(std::string_view text) {
  std::vector<Host> hosts;
  std::string_view rest = text;
  do {
    const auto comma = std::min(rest.find(','), rest.size());
    const std::string_view entry = rest.substr(0, comma);
    const auto colon = std::min(entry.find(':'), entry.size());
    const auto slots = colon == entry.size() ? std::optional<std::int64_t>{1} : parse_slots(entry.substr(colon + 1));
    if (!slots || !is_host_name(entry.substr(0, colon))) {
      return fail(ErrorKind::invalid,
                  fmt::format("-H {}: '{}' must be HOST or HOST:SLOTS with 1 to {} slots, such as host1:4,host2:4",
                              text, entry, slots_max));
    }
    hosts.push_back({.name = std::string{entry.substr(0, colon)}, .slots = *slots});
    rest.remove_prefix(comma);
    if (rest == ",") rest = ",,";  // An entry is missing behind the last comma.
    if (!rest.empty()) rest.remove_prefix(1);
  } while (!rest.empty());
  TRY(check_hosts(fmt::format("-H {}", text), hosts));
  return hosts;
}

Result<std::vector<Host>> parse_host_file(std::string_view text, std::string_view name) {
  std::vector<Host> hosts;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const auto space = std::min(line.find_first_of(" \t"), line.size());
    const std::string_view rest = trim(line.substr(space));
    constexpr std::string_view key = "slots=";
    const auto slots = rest.empty()            ? std::optional<std::int64_t>{1}
                       : rest.starts_with(key) ? parse_slots(rest.substr(key.size()))
                                               : std::nullopt;
    if (!slots || !is_host_name(line.substr(0, space))) {
      return fail(ErrorKind::invalid,
                  fmt::format("--hostfile {}: line {} must be HOST or HOST slots=N with 1 to {} slots, but is '{}'",
                              name, number, slots_max, line));
    }
    hosts.push_back({.name = std::string{line.substr(0, space)}, .slots = *slots});
  }
  TRY(check_hosts(fmt::format("--hostfile {}", name), hosts));
  return hosts;
}

Result<std::vector<Host>> read_hosts(const HostOptions& options) {
  if (!options.list.empty() && !options.file.empty())
    return fail(ErrorKind::invalid, "-H and --hostfile both name hosts: give one of them");
  if (!options.list.empty()) return parse_hosts(options.list);
  if (options.file.empty()) return std::vector<Host>{};
  std::ifstream file{options.file};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  if (!file) {
    return fail(ErrorKind::io, fmt::format("--hostfile {}: cannot be read: {}", options.file, std::strerror(errno)));
  }
  return parse_host_file(text, options.file);
}

std::string to_string(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& host : hosts) text += fmt::format("{}{}:{}", text.empty() ? "" : ", ", host.name, host.slots);
  return text;
}

Result<std::vector<Host>> with_one_rank_each(std::vector<Host> hosts, std::int64_t gpus) {
  for (Host& host : hosts) {
    if (host.slots < gpus) {
      return fail(
          ErrorKind::invalid,
          fmt::format("a rank of strategy dp or ddp2 uses gpusPerPod {} GPUs of its host, but {} has {} slot{}: "
                      "give it {}, or lower spec.gpusPerPod",
                      gpus, host.name, host.slots, host.slots == 1 ? "" : "s", gpus));
    }
    host.slots = 1;
  }
  return hosts;
}

Result<std::vector<local::RankSeat>> seat_ranks(const std::vector<Host>& hosts, std::int64_t rank_count) {
  std::vector<Host> used;
  std::int64_t left = rank_count;
  for (const Host& host : hosts) {
    if (left == 0) break;
    used.push_back({.name = host.name, .slots = std::min(left, host.slots)});
    left -= used.back().slots;
  }
  if (left > 0) {
    return fail(ErrorKind::invalid, fmt::format("{} ranks do not fit into {} slots ({}): give the hosts more slots, or "
                                                "ask for fewer ranks with -np",
                                                rank_count, rank_count - left, to_string(hosts)));
  }
  std::vector<local::RankSeat> seats;
  for (std::size_t node = 0; node < used.size(); ++node) {
    for (std::int64_t slot = 0; slot < used[node].slots; ++slot) {
      local::RankSeat seat{.host = used[node].name, .is_remote = !is_this_machine(used[node].name), .variables = {}};
      if (seat.is_remote) seat.address = seat.host.substr(seat.host.find('@') + 1);  // npos + 1 is 0: the whole name.
      const auto set = [&](std::string_view name, const auto& value) {
        seat.variables[std::string{name}] = fmt::format("{}", value);
      };
      set(contract::env_local_rank, slot);
      set(contract::env_local_world_size, used[node].slots);
      set(contract::env_node_rank, node);
      set(contract::env_group_rank, node);
      set(contract::env_group_world_size, used.size());
      set(contract::env_pet_nnodes, used.size());
      set(contract::env_pet_node_rank, node);
      set(contract::env_pet_nproc_per_node, used[node].slots);
      seats.push_back(std::move(seat));
    }
  }
  return seats;
}

Result<void> add_own_address(std::vector<local::RankSeat>& seats) {
  const auto other = std::ranges::find(seats, true, &local::RankSeat::is_remote);
  if (other == seats.end()) return {};
  const std::string address = TRY(own_address_towards(other->address));
  for (local::RankSeat& seat : seats) {
    if (!seat.is_remote) seat.address = address;
  }
  return {};
}

bool is_this_machine(std::string_view name) {
  return name == "localhost" || name == "127.0.0.1";
}

}  // namespace trainyard::cli
