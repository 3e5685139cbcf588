#include "local/own_address.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "common/file_descriptor.hpp"

namespace trainyard::local {

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

}  // namespace trainyard::local
