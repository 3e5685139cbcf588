#include "worker/rank/group_environment.hpp"

#include <fmt/format.h>

#include <limits>

#include "api/contract.hpp"
#include "common/try.hpp"
#include "worker/rank/environment.hpp"
#include "worker/rank/mpi_and_slurm.hpp"

namespace trainyard::rank {
namespace {

Result<std::uint16_t> port(const Environment& environment, std::string_view name, std::uint16_t otherwise) {
  const auto number =
      TRY(number_or(environment, name, {.min = 1, .max = std::numeric_limits<std::uint16_t>::max()}, otherwise));
  return static_cast<std::uint16_t>(number);
}

Result<void> read_sizes(const Environment& environment, GroupEnvironment& group) {
  const auto world = TRY(number_or(environment, contract::env_world_size, {.min = 1, .max = ranks_max}, 1));
  const auto local = TRY(number_or(environment, contract::env_local_world_size, {.min = 1, .max = ranks_max}, 1));
  group.world_size = world;
  group.local_world_size = local;
  if (group.local_world_size > group.world_size) {
    return contradiction(fmt::format("LOCAL_WORLD_SIZE is {}, but WORLD_SIZE is {}", local, world));
  }
  return {};
}

Result<void> read_place(const Environment& environment, GroupEnvironment& group) {
  const auto rank = TRY(optional_number(environment, contract::env_rank, {.min = 0, .max = ranks_max}));
  const auto node_name = environment(contract::env_node_rank) ? contract::env_node_rank : contract::env_group_rank;
  const auto node = TRY(optional_number(environment, node_name, {.min = 0, .max = ranks_max}));
  const auto local = TRY(optional_number(environment, contract::env_local_rank, {.min = 0, .max = ranks_max}));

  const std::int64_t ranks_here = group.local_world_size;
  group.rank = rank;
  if (group.rank) {
    if (*group.rank >= group.world_size) {
      return contradiction(
          fmt::format("RANK is {}, but WORLD_SIZE is {}: ranks are numbered from 0", *group.rank, group.world_size));
    }
    group.local_rank = local.value_or(ranks_here == 1 ? 0 : *group.rank % ranks_here);
    if (group.local_rank >= ranks_here) {
      return contradiction(fmt::format("LOCAL_RANK is {}, but LOCAL_WORLD_SIZE is {}", group.local_rank, ranks_here));
    }
    group.node_rank = node.value_or(*group.rank / ranks_here);
    return {};
  }
  if (group.world_size % ranks_here != 0) {
    return contradiction(
        fmt::format("WORLD_SIZE is {}, which is not a multiple of LOCAL_WORLD_SIZE {}", group.world_size, ranks_here));
  }
  if (!node && group.world_size > ranks_here) {
    return fail(
        ErrorKind::invalid,
        fmt::format("WORLD_SIZE is {}, but neither RANK nor NODE_RANK is set: set one of them", group.world_size));
  }
  group.node_rank = node.value_or(0);
  if (group.node_rank >= group.world_size / ranks_here) {
    return contradiction(fmt::format("{} is {}, but WORLD_SIZE {} with LOCAL_WORLD_SIZE {} makes {} nodes", node_name,
                                     group.node_rank, group.world_size, ranks_here, group.world_size / ranks_here));
  }
  if (ranks_here == 1) group.rank = group.node_rank;
  return {};
}

Result<void> read_addresses(const Environment& environment, GroupEnvironment& group) {
  const auto master = environment(contract::env_master_addr);
  if (!master && group.world_size > 1) {
    return fail(
        ErrorKind::invalid,
        fmt::format("WORLD_SIZE is {}, but MASTER_ADDR is not set: set it to the address of rank 0", group.world_size));
  }
  group.master_address = master.value_or("127.0.0.1");
  const auto master_port = TRY(port(environment, contract::env_master_port, contract::default_master_port));
  const auto store_port = TRY(port(environment, contract::env_store_port, contract::default_store_port));
  const auto peer_port = TRY(port(environment, contract::env_peer_port, contract::default_peer_port));
  const auto status_port = TRY(port(environment, contract::env_status_port, contract::default_status_port));
  group.master_port = master_port;
  group.store_port = store_port;
  group.peer_port = peer_port;
  // Outside of a job nobody polls /status, and two programs started by hand on one machine must not compete for the
  // port.
  if (environment(contract::env_status_port) || environment(contract::env_job_uid)) group.status_port = status_port;
  if (group.world_size > 1 && group.store_port == group.peer_port) {
    return contradiction(
        fmt::format("{} and {} are both {}", contract::env_store_port, contract::env_peer_port, group.peer_port));
  }
  return {};
}

/// torchrun's agent hosts the rendezvous store for ranks that it has started itself.
Result<void> check_torchrun(const Environment& environment) {
  for (const auto name : {contract::env_rank, contract::env_world_size, contract::env_master_addr}) {
    if (environment(name)) continue;
    return fail(ErrorKind::invalid, fmt::format("{} is True, but {} is not set: torchrun sets both",
                                                contract::env_elastic_use_agent_store, name));
  }
  return {};
}

}  // namespace

Result<GroupEnvironment> parse_group_environment(const Environment& given) {
  const Environment environment = TRY(in_contract_words(given));
  GroupEnvironment group;
  group.uses_agent_store = environment(contract::env_elastic_use_agent_store) == contract::torch_true;
  if (group.uses_agent_store) TRY(check_torchrun(environment));
  TRY(read_sizes(environment, group));
  TRY(read_place(environment, group));
  TRY(read_addresses(environment, group));
  group.job = environment(contract::env_job).value_or("local");
  group.job_namespace = environment(contract::env_namespace).value_or("");
  group.job_uid = environment(contract::env_job_uid).value_or("");
  group.attempt = TRY(number_or(environment, contract::env_attempt, {.min = 1}, 1));
  group.has_launcher = environment(env_has_launcher) == "1";
  return group;
}

bool is_loopback(std::string_view address) {
  return address == "localhost" || address == "::1" || address.substr(0, 4) == "127.";
}

}  // namespace trainyard::rank
