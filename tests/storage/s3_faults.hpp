#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "tests/fakes/fault_proxy.hpp"

namespace trainyard::storage {

using fakes::Fault;
using fakes::FaultProxy;
using fakes::ProxiedRequest;

/// An S3 server's refusal as HTTP text.
inline std::string s3_refusal(int status, const std::string& code, const std::string& headers = "") {
  return fakes::http_reply(
      status, headers,
      fmt::format("<?xml version=\"1.0\"?><Error><Code>{}</Code><Message>words</Message></Error>", code));
}

inline Fault refuse(int status, const std::string& code, const std::string& headers = "") {
  return {Fault::Kind::reply, s3_refusal(status, code, headers), 0};
}

/// True when a request removes one object, or many.
inline bool is_removal(const ProxiedRequest& request) {
  return request.method == "DELETE" || request.target.find("?delete") != std::string::npos;
}

/// Gives `fault` to the first `count` requests of `method`.
inline FaultProxy::Decide fail_first(int count, std::string method, Fault fault) {
  return
      [count, method = std::move(method), fault = std::move(fault), seen = 0](const ProxiedRequest& request) mutable {
        return request.method == method && ++seen <= count ? fault : Fault{};
      };
}

/// Gives `fault` to all requests of `method`.
inline FaultProxy::Decide fail_all(std::string method, const Fault& fault) {
  return fail_first(1'000'000, std::move(method), fault);
}

}  // namespace trainyard::storage
