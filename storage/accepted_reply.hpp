#pragma once

#include <span>
#include <utility>

#include "common/result.hpp"
#include "storage/http_message.hpp"

namespace trainyard::storage {

/// Makes the one `call` with `client`, and returns the reply that the client gives to `call.accept`, whose caller need
/// not set it.
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
