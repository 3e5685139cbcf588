#include "operator/manager/status_fetch.hpp"

#include <fmt/format.h>
#include <httplib.h>

namespace trainyard::manager {
namespace {

constexpr std::size_t body_bytes_max = 64 << 10;

}  // namespace

Result<std::string> fetch_status(const std::string& url, std::chrono::milliseconds deadline) {
  const std::size_t authority = url.find("//") + 2;
  const std::size_t slash = std::min(url.find('/', authority), url.size());
  httplib::Client client{url.substr(0, slash)};
  client.set_connection_timeout(deadline);
  client.set_read_timeout(deadline);
  client.set_write_timeout(deadline);
  const auto end = std::chrono::steady_clock::now() + deadline;
  std::string body;
  const auto receive = [&](const char* bytes, std::size_t count) {
    body.append(bytes, count);
    return body.size() <= body_bytes_max && std::chrono::steady_clock::now() < end;
  };
  const auto result = client.Get(slash < url.size() ? url.substr(slash) : "/", receive);
  const std::string tried = fmt::format("GET {}", url);
  if (body.size() > body_bytes_max)
    return fail(ErrorKind::corrupt, fmt::format("{}: more than {} bytes came", tried, body_bytes_max));
  if (!result) {
    if (std::chrono::steady_clock::now() >= end) {
      return fail(ErrorKind::timeout, fmt::format("{}: no answer within {} ms", tried, deadline.count()));
    }
    return fail(ErrorKind::unavailable, fmt::format("{}: no connection, or it broke", tried));
  }
  if (result->status != 200) return fail(ErrorKind::unavailable, fmt::format("{}: HTTP {}", tried, result->status));
  return body;
}

}  // namespace trainyard::manager
