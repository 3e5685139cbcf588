#include "operator/kube/exec_credential.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/base64.hpp"
#include "common/rfc3339.hpp"

namespace trainyard::kube {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds renewed_before_expiry{10};
constexpr std::chrono::seconds ask_interval{5};

tl::unexpected<Error> unusable(std::string sentence) {
  return fail(ErrorKind::unauthorized, std::move(sentence));
}

/// The text of `field`; empty if the field is absent or null; no value if it is not a string.
std::optional<std::string> text_or_none(const json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end() || found->is_null()) return std::string{};
  if (!found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

/// True when an HTTP header can carry `text`.
bool is_token(std::string_view text) {
  return std::ranges::none_of(text, [](unsigned char c) { return c <= 0x20 || c >= 0x7f; });
}

}  // namespace

std::string make_exec_info(const ExecEntry& entry, const ExecCluster& cluster, bool is_interactive) {
  json spec{{"interactive", is_interactive}};
  if (entry.is_cluster_wanted) {
    json& told = spec["cluster"] = json{{"server", cluster.server}};
    if (!cluster.ca_pem.empty()) told["certificate-authority-data"] = encode_base64(cluster.ca_pem);
    if (!cluster.config.is_null()) told["config"] = cluster.config;
  }
  const json info{{"apiVersion", entry.api_version}, {"kind", "ExecCredential"}, {"spec", std::move(spec)}};
  return info.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<ExecCredential> parse_exec_credential(std::string_view output, std::string_view api_version) {
  const json reply = json::parse(output, nullptr, /*allow_exceptions=*/false);
  if (!reply.is_object()) return unusable("it printed no JSON object");
  if (text_or_none(reply, "kind") != "ExecCredential") return unusable("it printed an object of another kind");
  if (text_or_none(reply, "apiVersion") != api_version)
    return unusable(fmt::format("it did not answer in {}, in which it was asked", api_version));
  const auto status = reply.find("status");
  if (status == reply.end() || !status->is_object()) return unusable("its ExecCredential has no status");

  ExecCredential credential;
  std::string expires_at;
  struct Target {
    const char* field;
    std::string& value;
  };
  const std::array<Target, 4> targets{{{"token", credential.token},
                                       {"clientCertificateData", credential.certificate_pem},
                                       {"clientKeyData", credential.key_pem},
                                       {"expirationTimestamp", expires_at}}};
  for (const auto& [field, value] : targets) {
    auto text = text_or_none(*status, field);
    if (!text) return unusable(fmt::format("its status.{} is not a string", field));
    value = *std::move(text);
  }
  if (credential.certificate_pem.empty() != credential.key_pem.empty())
    return unusable("its status has only one of clientCertificateData and clientKeyData");
  if (credential.token.empty() && credential.certificate_pem.empty())
    return unusable("its status has neither a token nor a client certificate");
  if (!is_token(credential.token)) return unusable("its status.token has characters that no header can carry");
  if (!expires_at.empty()) {
    const auto time = parse_rfc3339(expires_at);
    if (!time) return unusable("its status.expirationTimestamp is not a time such as 2026-11-21T10:00:00Z");
    credential.expires_at = *time;
  }
  return credential;
}

Time renewal_time(const ExecCredential& credential, Time asked_at) {
  if (!credential.expires_at) return Time::max();
  return std::max<Time>(*credential.expires_at - renewed_before_expiry, asked_at + ask_interval);
}

}  // namespace trainyard::kube
