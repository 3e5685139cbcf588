#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace trainyard::fakes {

/// The fault that the proxy makes of one request.
struct Fault {
  enum class Kind {
    none,
    reply,          ///< Takes the request and answers `reply` itself: the server never sees it.
    reset_request,  ///< Resets the connection once `bytes` of the request's body have come: the server never sees it.
    lose_reply,     ///< The server handles the request; the connection is reset instead of the reply.
    hold_reply,     ///< The server handles the request; the client hears nothing until it hangs up.
    half_reply,     ///< The server handles the request; the connection ends after half of the reply's body.
    corrupt_reply,  ///< The server handles the request; one bit of the reply's body is changed.
    stall,          ///< Takes the request and stays silent.
    drip_request,   ///< Takes the request's body a byte each tenth of a second; no other fault.
    drip_reply,     ///< The server handles the request; the reply comes a byte each tenth of a second.
  };
  Kind kind = Kind::none;
  std::string reply;  ///< The whole text, from "HTTP/1.1" on.
  std::size_t bytes = 0;
};

/// An HTTP reply with a Content-Length. `headers`: each line with its end.
[[nodiscard]] std::string http_reply(int status, const std::string& headers, const std::string& body);

struct ProxiedRequest {
  int number = 0;  ///< From 1.
  std::string method;
  std::string target;  ///< "/bucket/key?query"
  std::string head;    ///< All of it up to the body, as it came.
};

/// A TCP proxy on the loopback address in front of an HTTP server, which causes the faults that a test asks for. One
/// request and one thread for each connection.
class FaultProxy {
 public:
  using Decide = std::function<Fault(const ProxiedRequest&)>;

  /// Ends the test program when there is no free port. Calls `decide` under a lock, one request at a time.
  FaultProxy(std::uint16_t server_port, Decide decide);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] int request_count() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trainyard::fakes
