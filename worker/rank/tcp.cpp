#include "worker/rank/tcp.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "common/try.hpp"
#include "worker/rank/group_environment.hpp"

namespace trainyard::rank {
namespace {

constexpr int backlog_max = 1024;  // All launchers of a large job may connect at once.
constexpr int socket_type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

SocketAddress any_address(int family, Reach reach, std::uint16_t port) {
  SocketAddress address;
  if (family == AF_INET6) {
    auto* in6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    in6->sin6_addr = in6addr_any;
    address.size = sizeof(sockaddr_in6);
  } else {
    auto* in4 = reinterpret_cast<sockaddr_in*>(&address.storage);
    in4->sin_family = AF_INET;
    in4->sin_port = htons(port);
    in4->sin_addr.s_addr = htonl(reach == Reach::loopback ? INADDR_LOOPBACK : INADDR_ANY);
    address.size = sizeof(sockaddr_in);
  }
  return address;
}

void set_option(int socket, int level, int name, int value) {
  setsockopt(socket, level, name, &value, sizeof(value));
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24U) == 127;
  }
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

std::string numeric_host(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "an unknown address";
  // An IPv4 peer of a socket that takes both families.
  constexpr std::string_view mapped = "::ffff:";
  const std::string_view host = text.data();
  const bool is_mapped = host.starts_with(mapped) && host.find('.') != std::string_view::npos;
  return std::string{is_mapped ? host.substr(mapped.size()) : host};
}

Result<std::string> first_outward_address() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return fail(ErrorKind::io, "listing this machine's addresses: " + error_text(errno));
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner{list, freeifaddrs};
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    if ((entry->ifa_flags & IFF_UP) == 0 || is_loopback(entry->ifa_addr)) continue;
    return numeric_host(entry->ifa_addr, sizeof(sockaddr_in));
  }
  return fail(ErrorKind::unavailable,
              "this machine has no address but loopback, where the group's other machines cannot reach it");
}

}  // namespace

std::string to_string(const SocketAddress& address) {
  return numeric_host(address.get(), address.size);
}

Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    const std::string why = error == EAI_SYSTEM ? error_text(errno) : gai_strerror(error);
    return fail(ErrorKind::unavailable, fmt::format("the name {} does not resolve ({})", host, why));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner{found, freeaddrinfo};
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
  }
  return addresses;
}

Reach reach_of(std::string_view master_address) {
  const bool is_here = master_address == "127.0.0.1" || master_address == "localhost" || master_address == "::1";
  return is_here ? Reach::loopback : Reach::everywhere;
}

Result<FileDescriptor> listen_on(Reach reach, std::uint16_t port, std::string_view what) {
  // A dual-stack socket serves IPv4 and IPv6. Where the kernel has no IPv6, an IPv4 socket is opened instead.
  int family = reach == Reach::everywhere ? AF_INET6 : AF_INET;
  FileDescriptor listener{socket(family, socket_type, 0)};
  if (!listener && family == AF_INET6) {
    family = AF_INET;
    listener = FileDescriptor{socket(family, socket_type, 0)};
  }
  if (!listener) return fail(ErrorKind::io, fmt::format("opening a socket for {}: {}", what, error_text(errno)));
  set_option(listener.get(), SOL_SOCKET, SO_REUSEADDR,
             1);  // Connections of an ended program must not keep the port busy.
  if (family == AF_INET6) set_option(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  const SocketAddress address = any_address(family, reach, port);
  if (bind(listener.get(), address.get(), address.size) != 0 || listen(listener.get(), backlog_max) != 0) {
    if (errno == EADDRINUSE) {
      return fail(ErrorKind::already_exists,
                  fmt::format("port {}, where {} was to listen, is in use by another program on this machine: end that "
                              "program (ss -ltnp lists it), or give the group another port",
                              port, what));
    }
    return fail(ErrorKind::io, fmt::format("listening on port {} for {}: {}", port, what, error_text(errno)));
  }
  return listener;
}

Result<FileDescriptor> start_connect(const SocketAddress& address) {
  FileDescriptor connection{socket(address.storage.ss_family, socket_type, 0)};
  if (!connection) return fail(ErrorKind::unavailable, "opening a socket: " + error_text(errno));
  set_option(connection.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  if (connect(connection.get(), address.get(), address.size) != 0 && errno != EINPROGRESS) {
    return fail(ErrorKind::unavailable, error_text(errno));
  }
  return connection;
}

Result<void> take_connect_error(int socket) {
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return fail(ErrorKind::unavailable, error_text(error));
  return {};
}

Result<std::string> local_address_towards(const std::string& host) {
  auto addresses = TRY(resolve(host, 1));
  if (is_loopback(addresses.front().get()) && !is_loopback(host)) return first_outward_address();
  // Connecting a datagram socket sends nothing: it asks the routing table.
  const SocketAddress& remote = addresses.front();
  const FileDescriptor probe{socket(remote.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  SocketAddress local;
  local.size = sizeof(local.storage);
  if (!probe || connect(probe.get(), remote.get(), remote.size) != 0 ||
      getsockname(probe.get(), local.get(), &local.size) != 0) {
    return fail(ErrorKind::unavailable,
                fmt::format("no route to {} ({}): {}", host, to_string(remote), error_text(errno)));
  }
  return to_string(local);
}

}  // namespace trainyard::rank
