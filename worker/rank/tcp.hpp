#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/file_descriptor.hpp"
#include "common/result.hpp"

/// TCP at the operating system's edge: every socket is non-blocking and closed on exec.
namespace trainyard::rank {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

/// "10.0.0.7", "::1": the address without its port.
[[nodiscard]] std::string to_string(const SocketAddress& address);

/// The host's addresses, of a name or a literal. Blocks as long as the system's resolver does. ErrorKind::unavailable
/// where the name is not known (it may come to be: a pod's name exists once its pod does).
[[nodiscard]] Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port);

/// A listening socket on loopback alone, or on all of this machine's addresses. `what` says in the error what was to
/// listen there. ErrorKind::already_exists where the port is in use.
enum class Reach { loopback, everywhere };
[[nodiscard]] Result<FileDescriptor> listen_on(Reach reach, std::uint16_t port, std::string_view what);

/// A socket whose connection is under way: once it is writable, take_connect_error() says how it went.
[[nodiscard]] Result<FileDescriptor> start_connect(const SocketAddress& address);
[[nodiscard]] Result<void> take_connect_error(int socket);

/// This machine's address on the route to `host`, which others of the group reach as well; never loopback unless `host`
/// is a loopback literal: where a hosts file maps the machine's own name to loopback, its first other address. Blocks
/// as resolve().
[[nodiscard]] Result<std::string> local_address_towards(const std::string& host);

}  // namespace trainyard::rank
