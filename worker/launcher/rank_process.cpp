#include "worker/launcher/rank_process.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "api/contract.hpp"
#include "common/logging.hpp"
#include "worker/launcher/process.hpp"
#include "worker/rank/processors.hpp"

namespace trainyard::launcher {

std::vector<std::string> complete_rank_environment(std::vector<std::string> base, const Options& options,
                                                   std::int64_t local_rank, std::int64_t threads, int link) {
  const auto is_set = [&](std::string_view name) {
    return std::any_of(base.begin(), base.end(), [&](const std::string& entry) {
      return entry.starts_with(fmt::format("{}=", name)) && entry.size() > name.size() + 1;
    });
  };
  const auto set = [&](std::string_view name, const auto& value) {
    set_variable(base, name, fmt::format("{}", value));
  };
  if (!is_set("OMP_NUM_THREADS")) {
    set("OMP_NUM_THREADS", threads);
    set(rank::env_chose_threads, 1);
  }
  // glibc reads it before main. Its heap then asks for transparent huge pages.
  if (!is_set("GLIBC_TUNABLES")) set("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

  const rank::GroupEnvironment& group = options.group;
  const bool is_alone = group.rank.has_value();
  set(contract::env_rank, options.ranks.first_rank + local_rank);
  set(contract::env_role_rank, options.ranks.first_rank + local_rank);
  set(contract::env_local_rank, is_alone ? group.local_rank : local_rank);
  set(contract::env_world_size, group.world_size);
  set(contract::env_local_world_size, group.local_world_size);
  set(contract::env_node_rank, group.node_rank);
  set(contract::env_group_rank, group.node_rank);
  set(contract::env_master_addr, group.master_address);
  set(contract::env_master_port, group.master_port);
  set(contract::env_store_port, group.store_port);
  set(contract::env_peer_port, group.peer_port);
  // Ranks do not get the token, so that a program that prints its environment prints no secret.
  std::erase_if(base, [prefix = fmt::format("{}=", contract::env_request_token)](const std::string& entry) {
    return entry.starts_with(prefix);
  });
  set(rank::env_has_launcher, 1);
  set(rank::env_launcher_folder, options.folder);
  set(rank::env_rank_link, link);
  return base;
}

Result<RankProcess> RankProcess::start(const Options& options, std::int64_t local_rank) {
  std::array<int, 2> ends{-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    return fail(ErrorKind::io, fmt::format("opening a socket pair: {}", std::strerror(errno)));
  }
  FileDescriptor own{ends[0]};
  const FileDescriptor rank{ends[1]};
  const std::int64_t threads =
      rank::threads_per_rank(rank::read_processor_facts(rank::process_environment()), rank::rank_counts(options.group));
  auto pid = launcher::start(
      {.path = options.rank_program,
       .arguments = options.rank_arguments,
       .environment = complete_rank_environment(current_environment(), options, local_rank, threads, rank.get()),
       .inherited_file = rank.get()});
  if (!pid) return fail("starting the rank program", pid.error());
  return RankProcess{*pid, std::move(own)};
}

std::vector<rank::RankMessage> RankProcess::receive() {
  std::vector<rank::RankMessage> messages;
  std::string packet(rank::rank_message_bytes_max, '\0');
  while (socket_) {
    const ssize_t size = recv(socket_.get(), packet.data(), packet.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) break;
    if (size <= 0) {
      socket_.reset();
      break;
    }
    auto message = rank::decode_rank_message(std::string_view{packet}.substr(0, static_cast<std::size_t>(size)));
    if (message) {
      messages.push_back(std::move(*message));
    } else {
      logging::warn("message of a rank ignored", {{"pid", pid_}, {"error", message.error().message}});
    }
  }
  return messages;
}

void RankProcess::tell(const rank::RankMessage& message) const {
  const std::string packet = encode(message);
  if (socket_) send(socket_.get(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool RankProcess::send_signal(int signal) const {
  if (is_reaped_) return false;
  return kill(signal == SIGKILL ? -pid_ : pid_, signal) == 0;
}

RankExit RankProcess::reap() {
  send_signal(SIGKILL);
  int status = 0;
  waitpid(pid_, &status, 0);
  is_reaped_ = true;
  // The process has ended, so that receive() returns all of its last messages.
  return {.death = death_of(status), .last_words = receive()};
}

}  // namespace trainyard::launcher
