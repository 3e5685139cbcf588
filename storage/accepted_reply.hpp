#pragma once

#include <span>
#include <utility>

#include "common/result.hpp"
#include "storage/http_message.hpp"

namespace trainyard::storage {

/// Makes `call` with `client`, and returns the reply that the client passes to `call.accept`. The caller need not set
/// `call.accept`.
template <typename Client, typename Call>
[[nodiscard]] Result<HttpReply> accepted_reply(Client& client, Call call) {
  HttpReply accepted;
  call.accept = [&](const HttpReply& reply) -> Result<void> {
    accepted = reply;
    return {};
  };
  return client.perform(std::span<const Call>{&call, 1}, 1).map([&] { return std::move(accepted); });
}

}  // namespace trainyard::storage
