#include "operator/manager/rank_exchange.hpp"

#include <fmt/format.h>
#include <httplib.h>

#include <thread>

#include "operator/control/interruptible_wait.hpp"

namespace trainyard::manager {
namespace {

constexpr std::size_t body_bytes_max = 64 << 10;

/// Ends the request at the deadline. The library's own time limits apply to each read, so that a server which sends a
/// byte now and then never meets them. Stops the client repeatedly, because a connection that is being made cannot be
/// stopped.
void stop_at_deadline(httplib::Client& client, std::chrono::milliseconds deadline, const std::stop_token& is_over) {
  constexpr std::chrono::milliseconds pause{10};
  if (!control::wait_unless_stopped(is_over, deadline)) return;
  do {
    client.stop();
  } while (control::wait_unless_stopped(is_over, pause));
}

httplib::Request make_request(std::string path, const std::optional<RankPost>& post) {
  httplib::Request request;
  request.method = post ? "POST" : "GET";
  request.path = std::move(path);
  if (!post) return request;
  request.set_header("Authorization", "Bearer " + post->token);
  request.set_header("Content-Type", "application/json");
  request.body = post->body;
  return request;
}

}  // namespace

Result<RankReply> exchange_with_rank(const std::string& url, const std::optional<RankPost>& post,
                                     std::chrono::milliseconds deadline) {
  const std::size_t authority = url.find("//") + 2;
  const std::size_t slash = std::min(url.find('/', authority), url.size());
  httplib::Client client{url.substr(0, slash)};
  client.set_connection_timeout(deadline);
  client.set_read_timeout(deadline);
  client.set_write_timeout(deadline);
  const auto end = std::chrono::steady_clock::now() + deadline;
  std::string body;
  httplib::Request request = make_request(slash < url.size() ? url.substr(slash) : "/", post);
  request.content_receiver = [&](const char* bytes, std::size_t count, std::uint64_t, std::uint64_t) {
    body.append(bytes, count);
    return body.size() <= body_bytes_max && std::chrono::steady_clock::now() < end;
  };
  const auto result = [&] {
    const std::jthread watchdog{[&](const std::stop_token& is_over) { stop_at_deadline(client, deadline, is_over); }};
    return client.send(request);
  }();
  const std::string tried = fmt::format("{} {}", request.method, url);
  if (body.size() > body_bytes_max)
    return fail(ErrorKind::corrupt, fmt::format("{}: more than {} bytes came", tried, body_bytes_max));
  if (!result) {
    if (std::chrono::steady_clock::now() >= end) {
      return fail(ErrorKind::timeout, fmt::format("{}: no answer within {} ms", tried, deadline.count()));
    }
    return fail(ErrorKind::unavailable, fmt::format("{}: no connection, or it broke", tried));
  }
  return RankReply{.status = result->status, .body = std::move(body)};
}

}  // namespace trainyard::manager
