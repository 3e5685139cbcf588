// A server that accepts S3's uploads and discards them, so that the client limits the speed. It only checks that the
// requests are those of an upload.
//
// Usage: upload_sink. Prints its port, serves on the loopback address until its standard input ends, and then prints
// one JSON object: how many bytes, parts, connections and completed uploads there were.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/check.hpp"

namespace trainyard::bench {
namespace {

constexpr std::size_t head_bytes_max = std::size_t{64} << 10;
constexpr std::size_t discarded_bytes_max = std::size_t{1} << 20;

struct Counters {
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> parts{0};
  std::atomic<std::uint64_t> connections{0};
  std::atomic<std::uint64_t> completed{0};
};

struct Request {
  std::string method;
  std::string target;
  std::uint64_t body_bytes = 0;
};

// `head`: from the request line to the empty line.
Request parse_head(std::string_view head) {
  Request request;
  const std::size_t method_end = head.find(' ');
  const std::size_t target_end = head.find(' ', method_end + 1);
  check(target_end != std::string_view::npos, "a request has a method and a target");
  request.method = head.substr(0, method_end);
  request.target = head.substr(method_end + 1, target_end - method_end - 1);
  constexpr std::string_view name = "\r\nContent-Length: ";  // As libcurl writes it.
  if (const std::size_t at = head.find(name); at != std::string_view::npos) {
    const std::string_view text = head.substr(at + name.size());
    std::from_chars(text.data(), text.data() + text.size(), request.body_bytes);
  }
  return request;
}

bool send_all(int connection, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

// MSG_TRUNC: the kernel drops the bytes instead of copying them. Source: tcp(7).
bool discard(int connection, std::uint64_t bytes) {
  while (bytes > 0) {
    const ssize_t got = ::recv(connection, nullptr, std::min<std::uint64_t>(bytes, discarded_bytes_max), MSG_TRUNC);
    if (got <= 0) return false;
    bytes -= static_cast<std::uint64_t>(got);
  }
  return true;
}

std::string reply_to(const Request& request, Counters& counters) {
  const bool is_of_upload = request.target.find("uploadId=") != std::string::npos;
  std::string body;
  if (request.method == "POST" && request.target.ends_with("?uploads=")) {
    body = "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>";
  } else if (request.method == "POST" && is_of_upload) {
    body = "<CompleteMultipartUploadResult></CompleteMultipartUploadResult>";
    ++counters.completed;
  } else if (request.method == "PUT" && is_of_upload) {
    counters.bytes += request.body_bytes;
    ++counters.parts;
  } else {
    return "HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\n\r\n";
  }
  return "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

void serve(int connection, Counters& counters) {
  ++counters.connections;
  std::string received;
  std::vector<char> buffer(head_bytes_max);
  for (;;) {
    std::size_t end = received.find("\r\n\r\n");
    while (end == std::string::npos && received.size() < head_bytes_max) {
      const ssize_t got = ::recv(connection, buffer.data(), buffer.size(), 0);
      if (got <= 0) break;
      received.append(buffer.data(), static_cast<std::size_t>(got));
      end = received.find("\r\n\r\n");
    }
    if (end == std::string::npos) break;
    const Request request = parse_head(std::string_view{received}.substr(0, end + 2));
    received.erase(0, end + 4);
    const std::uint64_t come = std::min<std::uint64_t>(received.size(), request.body_bytes);
    received.erase(0, come);
    if (!discard(connection, request.body_bytes - come)) break;
    if (!send_all(connection, reply_to(request, counters))) break;
  }
  ::close(connection);
}

int listen_on_loopback() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool is_listening = ::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                            ::listen(listener, SOMAXCONN) == 0;
  check(is_listening, "a port of the loopback address is free");
  return listener;
}

std::uint16_t port_of(int listener) {
  sockaddr_in address{};
  socklen_t bytes = sizeof address;
  check(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &bytes) == 0, "a listener has an address");
  return ntohs(address.sin_port);
}

int run() {
  Counters counters;
  const int listener = listen_on_loopback();
  std::cout << port_of(listener) << std::endl;
  std::jthread acceptor{[&] {
    for (;;) {
      const int connection = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      std::thread{[connection, &counters] { serve(connection, counters); }}.detach();
    }
  }};
  std::cin.ignore(std::numeric_limits<std::streamsize>::max());
  std::cout << nlohmann::json{{"bytes", counters.bytes.load()},
                              {"parts", counters.parts.load()},
                              {"connections", counters.connections.load()},
                              {"completed", counters.completed.load()}}
            << std::endl;
  // The threads of open connections end with the process.
  std::_Exit(0);
}

}  // namespace
}  // namespace trainyard::bench

int main() {
  return trainyard::bench::run();
}
