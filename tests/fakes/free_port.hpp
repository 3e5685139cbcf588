#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

namespace trainyard::fakes {

/// A TCP port of the loopback address that was free a moment ago; 0 when there is none. Another program may take it, so
/// its user must be ready to try again.
inline std::uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool is_found = ::bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                        ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  ::close(fd);
  return is_found ? ntohs(address.sin_port) : std::uint16_t{0};
}

}  // namespace trainyard::fakes
