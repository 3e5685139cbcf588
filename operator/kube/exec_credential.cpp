#include "operator/kube/exec_credential.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "api/field_reader.hpp"
#include "common/text.hpp"
#include "common/time_text.hpp"

namespace trainyard::kube {
namespace {

using nlohmann::json;

constexpr std::string_view exec_v1 = "client.authentication.k8s.io/v1";
constexpr api::EnumNames<std::string_view, 2> api_versions{
    {{exec_v1, exec_v1}, {"client.authentication.k8s.io/v1beta1", "client.authentication.k8s.io/v1beta1"}}};
constexpr api::EnumNames<InteractiveMode, 3> interactive_modes{{{"Never", InteractiveMode::never},
                                                                {"IfAvailable", InteractiveMode::if_available},
                                                                {"Always", InteractiveMode::always}}};

void read_environment(api::FieldReader& reader, std::map<std::string, std::string>& environment) {
  reader.read_list("env", [&](api::FieldReader& variable) {
    std::string name;
    variable.require("name");
    variable.read("name", name);
    if (name.find('=') != std::string::npos) variable.report("name", "must not contain =");
    variable.read("value", environment[name]);
  });
}

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

std::string on_one_line(std::string_view text, std::size_t word_bytes_max) {
  const auto is_gap = [](unsigned char c) { return c <= 0x20 || c == 0x7f; };
  while (!text.empty() && (is_gap(static_cast<unsigned char>(text.back())) || text.back() == '.'))
    text.remove_suffix(1);
  std::string line;
  for (auto at = text.begin(); at != text.end();) {
    const auto begin = std::find_if_not(at, text.end(), is_gap);
    at = std::find_if(begin, text.end(), is_gap);
    if (!line.empty()) line += ' ';
    const std::string_view word{begin, at};
    line += word.size() > word_bytes_max ? "..." : word;
  }
  return line;
}

Result<ExecEntry> parse_exec_entry(const nlohmann::json& exec, const std::filesystem::path& folder) {
  std::optional<Error> problem;
  api::FieldReader reader{exec, "the user's exec", problem};
  ExecEntry entry;
  reader.require("apiVersion");
  reader.read("apiVersion", entry.api_version, api_versions);
  reader.require("command");
  reader.read("command", entry.command);
  reader.read("args", entry.arguments);
  read_environment(reader, entry.environment);
  reader.read("installHint", entry.install_hint);
  entry.install_hint = on_one_line(entry.install_hint);  // hints are written for a terminal, with line ends
  // As in kubectl: v1beta1 is older than this field.
  if (entry.api_version == exec_v1 && reader.find("interactiveMode") == nullptr)
    reader.report("interactiveMode", "must be given with apiVersion v1: Never, IfAvailable or Always");
  reader.read("interactiveMode", entry.interactive_mode, interactive_modes);
  reader.read("provideClusterInfo", entry.is_cluster_wanted);
  if (problem) return tl::unexpected(*problem);
  if (entry.command.find('/') != std::string::npos) entry.command = (folder / entry.command).string();
  return entry;
}

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
