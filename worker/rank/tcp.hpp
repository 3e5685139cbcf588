#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "common/file_descriptor.hpp"
#include "common/result.hpp"

/// TCP sockets. Each of them is non-blocking and closed on exec.
namespace trainyard::rank {

/// The system's message for `error`, a value of errno.
[[nodiscard]] inline std::string error_text(int error) {
  return std::strerror(error);  // NOLINT(concurrency-mt-unsafe): thread-safe in glibc.
}

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

/// "10.0.0.7", "::1": the address without its port.
[[nodiscard]] std::string to_string(const SocketAddress& address);

/// The addresses of `host`, a name or a literal. Blocks as long as the system's resolver does. ErrorKind::unavailable
/// when the name does not resolve; a pod's name resolves only once the pod exists.
[[nodiscard]] Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port);

/// A socket that listens on loopback alone, or on all of this machine's addresses. Error messages name the listener by
/// `what`. ErrorKind::already_exists when the port is in use.
enum class Reach { loopback, everywhere };
[[nodiscard]] Result<FileDescriptor> listen_on(Reach reach, std::uint16_t port, std::string_view what);

/// Where the group's servers listen: on 127.0.0.1 where `master_address` is it, since all ranks are on this machine
/// then. Other addresses of the loopback network may represent several machines: those servers listen everywhere.
[[nodiscard]] Reach reach_of(std::string_view master_address);

/// A socket that is being connected. Once the socket is writable, take_connect_error() returns the outcome.
[[nodiscard]] Result<FileDescriptor> start_connect(const SocketAddress& address);
[[nodiscard]] Result<void> take_connect_error(int socket);

/// This machine's address on the route to `host`, at which other machines can reach it. The address is loopback only if
/// `host` is a loopback literal: where a hosts file maps the machine's own name to loopback, the machine's first other
/// address is returned. Blocks as resolve() does.
[[nodiscard]] Result<std::string> local_address_towards(const std::string& host);

}  // namespace trainyard::rank
