#include "storage/cloud_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "common/try.hpp"
#include "storage/http_client.hpp"
#include "storage/sigv4.hpp"

namespace trainyard::storage {
namespace {

constexpr long partial_content = 206;

/// The token that one call sent last; `has_renewed` once a new one was asked for on its behalf.
struct TokenUse {
  std::string token;
  bool has_renewed = false;
};

Result<void> check_range(const HttpReply& reply, std::uint64_t first, std::size_t bytes, std::string_view doing) {
  const std::string range = reply.header("content-range");
  if (reply.status == partial_content && !range.starts_with(fmt::format("bytes {}-", first)))
    return fail(ErrorKind::corrupt, fmt::format("{}: the server sent a part that was not requested", doing));
  if (reply.status != partial_content && first > 0)
    return fail(ErrorKind::corrupt,
                fmt::format("{}: the server sent the whole object instead of the requested part", doing));
  if (reply.into_bytes == bytes) return {};
  return fail(ErrorKind::corrupt,
              fmt::format("{}: it ends {} bytes before what was asked for", doing, bytes - reply.into_bytes));
}

}  // namespace

CloudClient::CloudClient(CloudService service, HttpTuning tuning)
    : service_{std::move(service)}, http_{std::move(tuning)} {}

Result<HttpRequest> CloudClient::authorise(CloudRequest request, std::string& used_token) const {
  if (service_.tokens) {
    auto token = TRY(service_.tokens->get());
    request.headers["authorization"] = fmt::format("Bearer {}", token);
    used_token = std::move(token);
  }
  if (service_.sign) {
    TRY(service_.sign(request));
  }
  std::string query = canonical_query(request.query);
  if (!service_.query_token.empty()) query += fmt::format("{}{}", query.empty() ? "" : "&", service_.query_token);
  return HttpRequest{.method = std::move(request.method),
                     .url = fmt::format("{}{}{}{}", service_.endpoint, request.path, query.empty() ? "" : "?", query),
                     .headers = std::move(request.headers),
                     .body = std::move(request.body),
                     .into = request.into,
                     .deadline = request.deadline};
}

Result<void> CloudClient::perform(std::span<const CloudCall> calls, std::size_t connection_count, OnError on_error,
                                  const std::stop_token& stop) {
  std::vector<HttpCall> http_calls;
  std::vector<TokenUse> uses(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const CloudCall& call = calls[i];
    http_calls.push_back({.doing = fmt::format("{} at {}", call.doing, service_.endpoint),
                          .make = [this, &call, &use = uses[i]] { return authorise(call.make(), use.token); },
                          .accept = [this, &call, &use = uses[i]](const HttpReply& reply) -> Result<void> {
                            if (reply.status / 100 == 2) return call.accept(reply);
                            const Error error = service_.error_of(reply, call.doing);
                            if (error.kind == ErrorKind::unauthorized && service_.tokens && !use.has_renewed) {
                              use.has_renewed = true;
                              service_.tokens->refuse(use.token);
                              return fail(ErrorKind::unavailable, error.message);
                            }
                            return call.refuse ? call.refuse(reply, error) : tl::unexpected(error);
                          },
                          .patience = call.patience});
  }
  return http_.perform(http_calls, connection_count, on_error, stop);
}

Result<HttpReply> CloudClient::send(std::string doing, CloudRequest request,
                                    std::optional<std::chrono::milliseconds> patience) {
  return accepted_reply(
      *this, CloudCall{.make = [&] { return request; }, .accept = {}, .doing = std::move(doing), .patience = patience});
}

Result<void> CloudClient::read_range(const std::string& doing, const CloudRequest& whole, std::uint64_t offset,
                                     std::span<std::byte> into, const TransferPlan& plan) {
  std::vector<CloudCall> calls;
  for (std::uint64_t begin = 0; begin < into.size(); begin += plan.part_bytes) {
    const auto part = into.subspan(begin, std::min<std::uint64_t>(plan.part_bytes, into.size() - begin));
    const std::uint64_t first = offset + begin;
    calls.push_back({.make =
                         [&whole, part, first] {
                           CloudRequest request = whole;
                           request.headers["range"] = fmt::format("bytes={}-{}", first, first + part.size() - 1);
                           request.into = part;
                           return request;
                         },
                     .accept = [&doing, part, first](
                                   const HttpReply& reply) { return check_range(reply, first, part.size(), doing); },
                     .doing = doing});
  }
  return perform(calls, plan.connection_count);
}

}  // namespace trainyard::storage
