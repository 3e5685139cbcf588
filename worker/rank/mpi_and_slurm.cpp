#include "worker/rank/mpi_and_slurm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/contract.hpp"
#include "common/text.hpp"
#include "common/try.hpp"
#include "worker/rank/environment.hpp"

namespace trainyard::rank {
namespace {

constexpr std::size_t hosts_max = 65'536;
constexpr std::size_t digits_max = 9;

struct HostRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::size_t width = 0;  // "001-003" has numbers of at least three digits.
};

std::optional<std::int64_t> number_in(std::string_view digits) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (digits.size() > digits_max || !std::ranges::all_of(digits, is_digit)) return std::nullopt;
  return parse_number<std::int64_t>(digits);
}

std::optional<HostRange> parse_range(std::string_view text) {
  const auto dash = std::min(text.find('-'), text.size());
  const std::string_view begin = text.substr(0, dash);
  const std::string_view end = dash == text.size() ? begin : text.substr(dash + 1);
  const auto first = number_in(begin);
  const auto last = number_in(end);
  if (!first || !last || *last < *first) return std::nullopt;
  return HostRange{.first = *first, .last = *last, .width = begin.size()};
}

/// The part of `text` up to the next comma outside of brackets; that part and the comma are taken from `text`.
std::string_view take_entry(std::string_view& text) {
  std::size_t depth = 0;
  std::size_t end = 0;
  for (; end < text.size() && (text[end] != ',' || depth > 0); ++end) {
    if (text[end] == '[') ++depth;
    if (text[end] == ']' && depth > 0) --depth;
  }
  const std::string_view entry = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return entry;
}

/// Appends each range's numbers to each of `names`. False where `ranges` are not Slurm's, or there are too many names.
bool append_ranges(std::vector<std::string>& names, std::string_view ranges) {
  std::vector<std::string> longer;
  std::vector<HostRange> parsed;
  while (true) {
    const auto comma = std::min(ranges.find(','), ranges.size());
    const auto range = parse_range(ranges.substr(0, comma));
    if (!range) return false;
    parsed.push_back(*range);
    if (comma == ranges.size()) break;
    ranges.remove_prefix(comma + 1);
  }
  for (const std::string& name : names) {
    for (const HostRange& range : parsed) {
      for (std::int64_t number = range.first; number <= range.last; ++number) {
        if (longer.size() == hosts_max) return false;
        longer.push_back(fmt::format("{}{:0{}}", name, number, range.width));
      }
    }
  }
  names = std::move(longer);
  return true;
}

/// Empty where `entry` is no host, such as "n[1-3]".
std::vector<std::string> expand_entry(std::string_view entry) {
  if (entry.empty()) return {};
  std::vector<std::string> names{""};
  while (!entry.empty()) {
    const auto open = std::min(entry.find('['), entry.size());
    const std::string_view plain = entry.substr(0, open);
    if (plain.find_first_of("] \t") != std::string_view::npos) return {};
    for (std::string& name : names) name += plain;
    if (open == entry.size()) break;
    const auto close = entry.find(']', open);
    if (close == std::string_view::npos || !append_ranges(names, entry.substr(open + 1, close - open - 1))) return {};
    entry.remove_prefix(close + 1);
  }
  return names;
}

}  // namespace

Result<std::vector<std::string>> expand_host_list(std::string_view text) {
  std::vector<std::string> hosts;
  std::string_view rest = text;
  do {
    const std::string_view entry = take_entry(rest);
    auto names = expand_entry(entry);
    if (names.empty() || hosts.size() + names.size() > hosts_max || (rest.empty() && text.ends_with(','))) {
      return fail(ErrorKind::invalid,
                  fmt::format("'{}' is not a list of hosts as Slurm writes it, such as n[001-003,7],m2, of at most {} "
                              "hosts",
                              text, hosts_max));
    }
    std::ranges::move(names, std::back_inserter(hosts));
  } while (!rest.empty());
  return hosts;
}

Result<std::int64_t> count_of_node(std::string_view text, std::int64_t index) {
  const auto wrong = [&] {
    return fail(
        ErrorKind::invalid,
        fmt::format("'{}' does not give the tasks of node {} as Slurm writes them, such as 2(x3),1", text, index));
  };
  std::string_view rest = text;
  std::int64_t nodes = 0;
  while (!rest.empty()) {
    const auto comma = std::min(rest.find(','), rest.size());
    std::string_view entry = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    std::int64_t times = 1;
    if (const auto open = entry.find("(x"); open != std::string_view::npos && entry.ends_with(')')) {
      const auto repeated = number_in(entry.substr(open + 2, entry.size() - open - 3));
      if (!repeated) return wrong();
      times = *repeated;
      entry = entry.substr(0, open);
    }
    const auto count = number_in(entry);
    if (!count) return wrong();
    nodes += times;
    if (index < nodes) return *count;
  }
  return wrong();
}

namespace {

constexpr NumberRange any_rank{.min = 0, .max = ranks_max};
constexpr NumberRange any_size{.min = 1, .max = ranks_max};
constexpr NumberRange any_number{};

/// The variables in which a launcher writes a rank's place. Empty: it has no such variable.
struct LauncherWords {
  std::string_view rank;
  std::string_view size;
  std::string_view local_rank;
  std::string_view local_size;
  std::string_view node;
  std::string_view advice;  ///< Says what to do where only one of rank and size is set.
};

constexpr LauncherWords open_mpi{.rank = "OMPI_COMM_WORLD_RANK",
                                 .size = "OMPI_COMM_WORLD_SIZE",
                                 .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
                                 .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
                                 .node = "",
                                 .advice = "mpirun sets both"};
constexpr LauncherWords pmi{.rank = "PMI_RANK",
                            .size = "PMI_SIZE",
                            .local_rank = "MPI_LOCALRANKID",
                            .local_size = "MPI_LOCALNRANKS",
                            .node = "",
                            .advice = "mpiexec sets both"};
constexpr LauncherWords slurm{.rank = "SLURM_PROCID",
                              .size = "SLURM_NTASKS",
                              .local_rank = "SLURM_LOCALID",
                              .local_size = "",
                              .node = "SLURM_NODEID",
                              .advice = "srun sets both: in the shell of an allocation start the worker by srun"};
constexpr LauncherWords pmix{.rank = "PMIX_RANK",
                             .size = contract::env_world_size,
                             .local_rank = "",
                             .local_size = "",
                             .node = "",
                             .advice = "PMIx gives a rank no size: set WORLD_SIZE"};

using Variables = std::map<std::string_view, std::string>;

bool is_set(const Environment& environment, std::string_view name) {
  return !name.empty() && environment(name).has_value();
}

/// True where srun itself, and no launcher below it, has set PMI's variables: they say what Slurm's say.
bool is_of_srun(const Environment& environment) {
  const auto size = environment(pmi.size);
  return is_set(environment, slurm.rank) && environment(slurm.rank) == environment(pmi.rank) &&
         (!size || size == environment(slurm.size));
}

std::optional<LauncherWords> launcher_of(const Environment& environment) {
  for (const LauncherWords& words : {open_mpi, pmi, slurm}) {
    if (words.rank == pmi.rank && is_of_srun(environment)) continue;
    // In a batch script that asks for no tasks Slurm sets the rank alone, and the script is one task.
    if (words.rank == slurm.rank && !is_set(environment, slurm.size) && !is_set(environment, "SLURM_STEP_ID")) continue;
    if (is_set(environment, words.rank)) return words;
    // In the shell of an allocation Slurm sets the number of tasks, and one task needs no srun.
    if (is_set(environment, words.size) && environment(words.size) != "1") return words;
  }
  if (is_set(environment, pmix.rank)) return pmix;
  return std::nullopt;
}

Result<std::optional<std::int64_t>> number(const Environment& environment, std::string_view name, NumberRange range) {
  if (name.empty()) return std::nullopt;
  return optional_number(environment, name, range);
}

Result<void> check_below(std::string_view name, std::int64_t rank, std::string_view size_name, std::int64_t size) {
  if (rank < size) return {};
  return contradiction(fmt::format("{} is {}, but {} is {}: ranks are numbered from 0", name, rank, size_name, size));
}

/// Rank and size of the group, in the launcher's own words.
Result<void> read_group(const Environment& environment, const LauncherWords& words, Variables& found) {
  for (const auto& [name, other] : {std::pair{words.rank, words.size}, std::pair{words.size, words.rank}}) {
    if (is_set(environment, name)) continue;
    return fail(ErrorKind::invalid,
                fmt::format("{} is set, but {} is not; {}. A rank that is started by hand needs RANK, WORLD_SIZE and "
                            "MASTER_ADDR",
                            other, name, words.advice));
  }
  const auto rank = TRY(number(environment, words.rank, any_rank));
  const auto size = TRY(number(environment, words.size, any_size));
  TRY(check_below(words.rank, *rank, words.size, *size));
  const auto world = TRY(optional_number(environment, contract::env_world_size, any_size));
  if (world && *world != *size) {
    return contradiction(fmt::format("WORLD_SIZE is {}, but {} is {}", *world, words.size, *size));
  }
  found[contract::env_rank] = std::to_string(*rank);
  found[contract::env_world_size] = std::to_string(*size);
  return {};
}

/// The nodes of the step or of the allocation; empty outside of Slurm. Below mpirun the step is that of mpirun's own
/// daemons, which is another one on each node.
Result<std::vector<std::string>> slurm_nodes(const Environment& environment, const LauncherWords& words) {
  for (const auto* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    if (words.rank != slurm.rank && std::string_view{name} == "SLURM_STEP_NODELIST") continue;
    const auto list = environment(name);
    if (!list) continue;
    auto hosts = expand_host_list(*list);
    if (!hosts) return fail(fmt::format("the environment variable {}", name), hosts.error());
    return hosts;
  }
  return std::vector<std::string>{};
}

/// The ranks on this rank's node, by Slurm's list of tasks on each node, or by the nodes where each has equally many.
Result<std::optional<std::int64_t>> slurm_local_size(const Environment& environment, std::int64_t size,
                                                     std::size_t node_count) {
  const auto node = TRY(number(environment, slurm.node, any_rank));
  for (const auto* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
    const auto list = environment(name);
    if (!list || !node) continue;
    const auto count = count_of_node(*list, *node);
    if (!count) return fail(fmt::format("the environment variable {}", name), count.error());
    return *count;
  }
  const auto nodes = static_cast<std::int64_t>(node_count);
  if (nodes == 0 || size % nodes != 0) return std::nullopt;
  return size / nodes;
}

Result<void> read_local_place(const Environment& environment, const LauncherWords& words,
                              const std::vector<std::string>& nodes, Variables& found) {
  const std::int64_t size = std::stoll(found.at(contract::env_world_size));
  const auto local_rank = TRY(number(environment, words.local_rank, any_rank));
  auto local_size = TRY(number(environment, words.local_size, any_size));
  if (words.rank == slurm.rank) local_size = TRY(slurm_local_size(environment, size, nodes.size()));
  const auto node = TRY(number(environment, words.node, any_rank));
  if (local_size && *local_size > size) {
    return contradiction(fmt::format("{} ranks are on this node, but {} is {}", *local_size, words.size, size));
  }
  if (local_rank && local_size) {
    if (*local_rank >= *local_size)
      return contradiction(fmt::format("{} is {}, but this node has {} ranks, which are numbered from 0",
                                       words.local_rank, *local_rank, *local_size));
  }
  if (local_rank) {
    found[contract::env_local_rank] = std::to_string(*local_rank);
    // A launcher that does not say how many ranks a node has has started at least these.
    if (!local_size) local_size = *local_rank + 1;
  }
  if (local_size) found[contract::env_local_world_size] = std::to_string(*local_size);
  if (node) found[contract::env_node_rank] = std::to_string(*node);
  return {};
}

// Below the ports that Linux gives to connections, and below the ports that the operator uses.
constexpr std::int64_t slurm_port_min = 15'000;
constexpr std::int64_t slurm_jobs_max = 4'800;
constexpr std::int64_t ports_each = 3;

/// MASTER_PORT and the two ports after it. Jobs of Slurm may share a node, so that each has ports of its own.
Result<void> choose_ports(const Environment& environment, Variables& found) {
  const auto given = TRY(optional_number(environment, contract::env_master_port, {.min = 1, .max = 65'535}));
  std::int64_t port = given.value_or(contract::default_master_port);
  const auto job = TRY(optional_number(environment, "SLURM_JOB_ID", any_number));
  if (!given && job) port = slurm_port_min + ports_each * (*job % slurm_jobs_max);
  if (port + 2 > 65'535 &&
      !(is_set(environment, contract::env_store_port) && is_set(environment, contract::env_peer_port))) {
    return fail(
        ErrorKind::invalid,
        fmt::format("MASTER_PORT is {}, but the two ports after it are used as well: set it to at most 65533, or "
                    "set TRAINYARD_STORE_PORT and TRAINYARD_PEER_PORT",
                    port));
  }
  found[contract::env_master_port] = std::to_string(port);
  found[contract::env_store_port] = std::to_string(port + 1);
  found[contract::env_peer_port] = std::to_string(port + 2);
  return {};
}

Result<void> choose_master(const Environment& environment, const LauncherWords& words,
                           const std::vector<std::string>& nodes, Variables& found) {
  if (is_set(environment, contract::env_master_addr)) return {};
  const std::string& size = found.at(contract::env_world_size);
  const auto local = found.find(contract::env_local_world_size);
  const bool is_one_node = size == "1" || (local != found.end() && local->second == size);
  // srun starts the first task on the first node. mpirun may have left that node out.
  if (!nodes.empty() && (words.rank == slurm.rank || !is_one_node)) {
    found[contract::env_master_addr] = nodes.front();
    return {};
  }
  if (is_one_node) {
    found[contract::env_master_addr] = "127.0.0.1";
    return {};
  }
  return fail(
      ErrorKind::invalid,
      fmt::format("{} is {}, but neither MASTER_ADDR nor SLURM_JOB_NODELIST says where rank 0 is: set MASTER_ADDR "
                  "to the address of rank 0's node",
                  words.size, size));
}

}  // namespace

tl::unexpected<Error> contradiction(std::string message) {
  return fail(ErrorKind::invalid, "the rank environment contradicts itself: " + std::move(message));
}

Result<Environment> in_contract_words(const Environment& environment) {
  if (is_set(environment, contract::env_rank) || is_set(environment, contract::env_node_rank)) return environment;
  const auto words = launcher_of(environment);
  if (!words) return environment;
  Variables found;
  TRY(read_group(environment, *words, found));
  const auto nodes = TRY(slurm_nodes(environment, *words));
  TRY(read_local_place(environment, *words, nodes, found));
  TRY(choose_master(environment, *words, nodes, found));
  TRY(choose_ports(environment, found));
  return [environment, found = std::move(found)](std::string_view name) -> std::optional<std::string> {
    if (auto given = environment(name)) return given;
    const auto entry = found.find(name);
    return entry == found.end() ? std::nullopt : std::optional{entry->second};
  };
}

}  // namespace trainyard::rank
