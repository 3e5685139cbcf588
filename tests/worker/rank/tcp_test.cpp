#include "worker/rank/tcp.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <string>

#include "common/try.hpp"

namespace trainyard::rank {
namespace {

TEST(ReachOf, IsLoopbackOnlyWhereTheAddressIsTheLoopbackAddressItself) {
  for (const auto* address : {"127.0.0.1", "localhost", "::1"})
    EXPECT_EQ(reach_of(address), Reach::loopback) << address;
  for (const auto* address : {"127.0.0.2", "host1", "10.0.0.7"})
    EXPECT_EQ(reach_of(address), Reach::everywhere) << address;
}

/// The port that the kernel has given to a listener on port 0.
std::uint16_t port_of(const FileDescriptor& listener) {
  SocketAddress address;
  address.size = sizeof(address.storage);
  EXPECT_EQ(getsockname(listener.get(), address.get(), &address.size), 0);
  const bool is_ipv6 = address.storage.ss_family == AF_INET6;
  return ntohs(is_ipv6 ? reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_port
                       : reinterpret_cast<const sockaddr_in*>(address.get())->sin_port);
}

/// How an attempt to connect to `host` ends.
Result<void> connect_to(const std::string& host, std::uint16_t port) {
  const auto addresses = TRY(resolve(host, port));
  const FileDescriptor connection = TRY(start_connect(addresses.front()));
  pollfd waited{.fd = connection.get(), .events = POLLOUT, .revents = 0};
  EXPECT_EQ(poll(&waited, 1, 60'000), 1);
  return take_connect_error(connection.get());
}

bool has_ipv6() {
  const FileDescriptor socket{::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  return socket && bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

TEST(ListenOn, IsReachedOnLoopbackAloneOrOnEveryAddress) {
  const auto here = listen_on(Reach::loopback, 0, "a test");
  ASSERT_TRUE(here) << here.error().message;
  EXPECT_TRUE(connect_to("127.0.0.1", port_of(*here)));
  // 127.0.0.2 stands for every other address of this machine.
  const auto elsewhere = connect_to("127.0.0.2", port_of(*here));
  ASSERT_FALSE(elsewhere);
  EXPECT_EQ(elsewhere.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(elsewhere.error().message, "Connection refused");

  const auto everywhere = listen_on(Reach::everywhere, 0, "a test");
  ASSERT_TRUE(everywhere) << everywhere.error().message;
  EXPECT_TRUE(connect_to("127.0.0.1", port_of(*everywhere)));
  EXPECT_TRUE(connect_to("127.0.0.2", port_of(*everywhere)));
  if (has_ipv6()) {
    EXPECT_TRUE(connect_to("::1", port_of(*everywhere)));
  }
}

TEST(ListenOn, NamesThePortThatIsInUseAndWhoWantedIt) {
  for (const Reach reach : {Reach::loopback, Reach::everywhere}) {
    const auto taken = listen_on(reach, 0, "a test");
    ASSERT_TRUE(taken) << taken.error().message;
    const std::string port = std::to_string(port_of(*taken));
    const auto refused = listen_on(reach, port_of(*taken), "another test");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::already_exists);
    EXPECT_EQ(refused.error().message,
              "port " + port +
                  ", where another test was to listen, is in use by another program on this machine: end that program "
                  "(ss -ltnp lists it), or give the group another port");
  }
}

TEST(Sockets, NeitherBlockNorStayOpenInOtherPrograms) {
  const auto listener = listen_on(Reach::loopback, 0, "a test");
  ASSERT_TRUE(listener) << listener.error().message;
  const auto addresses = resolve("127.0.0.1", port_of(*listener));
  ASSERT_TRUE(addresses) << addresses.error().message;
  const auto connection = start_connect(addresses->front());
  ASSERT_TRUE(connection) << connection.error().message;
  for (const int socket : {listener->get(), connection->get()}) {
    EXPECT_NE(fcntl(socket, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(fcntl(socket, F_GETFD) & FD_CLOEXEC, 0);
  }
  int sends_at_once = 0;
  socklen_t size = sizeof(sends_at_once);
  ASSERT_EQ(getsockopt(connection->get(), IPPROTO_TCP, TCP_NODELAY, &sends_at_once, &size), 0);
  EXPECT_NE(sends_at_once, 0);
}

TEST(Resolve, GivesTheAddressesOfALiteralWithThePort) {
  const auto four = resolve("10.0.0.7", 258);
  ASSERT_TRUE(four) << four.error().message;
  ASSERT_EQ(four->size(), 1U) << "one for each kind of socket would be tried in vain";
  EXPECT_EQ(to_string(four->front()), "10.0.0.7");
  EXPECT_EQ(ntohs(reinterpret_cast<const sockaddr_in*>(four->front().get())->sin_port), 258);
  const auto six = resolve("fd00::7", 258);
  ASSERT_TRUE(six) << six.error().message;
  EXPECT_EQ(to_string(six->front()), "fd00::7");

  const auto mapped = resolve("::ffff:10.0.0.7", 29500);
  ASSERT_TRUE(mapped);
  EXPECT_EQ(to_string(mapped->front()), "10.0.0.7") << "as an IPv4 peer comes to a socket of both families";
  EXPECT_EQ(ntohs(reinterpret_cast<const sockaddr_in6*>(six->front().get())->sin6_port), 258);
}

TEST(Resolve, SaysThatANameDoesNotResolve) {
  const auto nobody = resolve("no such name", 1);
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().kind, ErrorKind::unavailable);
  EXPECT_TRUE(nobody.error().message.starts_with("the name no such name does not resolve (")) << nobody.error().message;
}

TEST(LocalAddressTowards, IsLoopbackWhereTheOtherIsALoopbackLiteral) {
  for (const std::string host : {"127.0.0.1", "localhost"}) {
    const auto local = local_address_towards(host);
    ASSERT_TRUE(local) << local.error().message;
    EXPECT_TRUE(*local == "127.0.0.1" || *local == "::1") << *local;
  }
  if (has_ipv6()) {
    EXPECT_EQ(local_address_towards("::1"), "::1");
  }
}

}  // namespace
}  // namespace trainyard::rank
