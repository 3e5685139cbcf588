#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "local/container.hpp"

namespace trainyard::cli {

/// Where the ranks of a run are to run, in the user's words.
struct HostOptions {
  std::string list;        ///< -H
  std::string file;        ///< --hostfile
  std::string ssh_config;  ///< --ssh-config
  [[nodiscard]] bool are_given() const { return !list.empty() || !file.empty(); }
};

/// A machine for ranks of a run.
struct Host {
  std::string name;  ///< As ssh takes it: a name or an IPv4 address, perhaps with "user@" before it.
  std::int64_t slots = 1;
  bool operator==(const Host&) const = default;
};

/// Reads -H: "host1:4,host2" has 4 slots on host1 and one on host2. ErrorKind::invalid names the entry that has another
/// form, and a host that is there twice.
[[nodiscard]] Result<std::vector<Host>> parse_hosts(std::string_view text);

/// Reads a file of --hostfile: a host on each line, with "slots=N" behind it or one slot; "#" begins a comment. `name`
/// is the file's, for errors. ErrorKind::invalid as parse_hosts().
[[nodiscard]] Result<std::vector<Host>> parse_host_file(std::string_view text, std::string_view name);

/// The hosts that `options` name; empty where they name none. Errors are those of the parsers, and ErrorKind::io where
/// the file cannot be read.
[[nodiscard]] Result<std::vector<Host>> read_hosts(const HostOptions& options);

/// "host1:4, host2:4"
[[nodiscard]] std::string to_string(const std::vector<Host>& hosts);

/// `hosts` with a slot for one rank each, which uses `gpus` GPUs of the host. ErrorKind::invalid names a host with
/// fewer slots than that.
[[nodiscard]] Result<std::vector<Host>> with_one_rank_each(std::vector<Host> hosts, std::int64_t gpus);

/// The seats of `rank_count` ranks: the first host's slots are filled first. Each has torchrun's variables, in whose
/// words a host is a node. ErrorKind::invalid where there are more ranks than slots.
[[nodiscard]] Result<std::vector<local::RankSeat>> seat_ranks(const std::vector<Host>& hosts, std::int64_t rank_count);

/// Gives this machine's seats the address that the first of the other machines sees. ErrorKind::unavailable where that
/// machine's name does not resolve, or no interface leads there.
[[nodiscard]] Result<void> add_own_address(std::vector<local::RankSeat>& seats);

/// True for the names of this machine that need no ssh: localhost and 127.0.0.1.
[[nodiscard]] bool is_this_machine(std::string_view name);

}  // namespace trainyard::cli
