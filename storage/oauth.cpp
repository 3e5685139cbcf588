#include "storage/oauth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "common/text.hpp"
#include "storage/http_client.hpp"
#include "storage/server_error.hpp"

namespace trainyard::storage {
namespace {

using nlohmann::json;

std::string member_text(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  return found->is_number_integer() ? found->dump() : std::string{};
}

std::optional<std::chrono::seconds> member_seconds(const json& object, const char* name) {
  constexpr std::int64_t seconds_max = 253'402'300'799;  // The year 9999 ends so long after 1970. More might overflow.
  const auto number = parse_number<std::int64_t>(member_text(object, name));
  if (!number) return std::nullopt;
  return std::chrono::seconds{std::clamp(*number, std::int64_t{0}, seconds_max)};
}

ErrorKind issuer_error_kind(long status, std::string_view code) {
  if (status == 429 || code == "slow_down") return ErrorKind::throttled;
  if (status >= 500 || status == 408 || status == 410 || code == "temporarily_unavailable" || code == "server_error")
    return ErrorKind::unavailable;
  return status >= 400 ? ErrorKind::unauthorized : ErrorKind::invalid;
}

}  // namespace

HttpTuning issuer_tuning(std::chrono::milliseconds limit, const Environment& environment) {
  return {.connect_timeout = limit,
          .patience = limit,
          .first_patience = limit,
          .ca_bundle = first_of(environment, {"SSL_CERT_FILE", "AWS_CA_BUNDLE"})};
}

Result<HttpReply> ask_issuer(HttpClient& http, const std::string& doing, const HttpRequest& request) {
  return accepted_reply(http, HttpCall{.doing = doing,
                                       .make = [&]() -> Result<HttpRequest> { return request; },
                                       .accept = {},
                                       .patience = std::nullopt});
}

Result<AccessToken> parse_token_reply(const HttpReply& reply, Time now,
                                      std::initializer_list<std::string_view> secrets) {
  if (reply.status / 100 != 2) return tl::unexpected(issuer_error(reply, secrets));
  const json object = json::parse(reply.body, nullptr, false);
  if (!object.is_object()) return fail(ErrorKind::invalid, "the reply is not a JSON object");
  AccessToken token{.text = member_text(object, "access_token"), .expiry = std::nullopt};
  if (token.text.empty() || token.text.find_first_of("\r\n") != std::string::npos)
    return fail(ErrorKind::invalid, "the reply holds no access token");
  if (const auto seconds = member_seconds(object, "expires_in")) token.expiry = now + *seconds;
  if (const auto seconds = member_seconds(object, "expires_on")) token.expiry = Time{*seconds};
  return token;
}

Error issuer_error(const HttpReply& reply, std::initializer_list<std::string_view> secrets) {
  const json object = json::parse(reply.body, nullptr, false);
  const auto inner = object.find("error");
  const bool is_nested = inner != object.end() && inner->is_object();
  const std::string code = is_nested ? member_text(*inner, "status") : member_text(object, "error");
  const std::string words = is_nested ? member_text(*inner, "message") : member_text(object, "error_description");
  Error error{issuer_error_kind(reply.status, code), fmt::format("it answered {}", reply.status),
              retry_after_of(reply)};
  if (!code.empty()) error.message += fmt::format(" {}", sanitize_server_text(code, secrets));
  if (!words.empty()) error.message += fmt::format(" ({})", sanitize_server_text(words, secrets));
  return error;
}

Result<std::string> read_secret_file(const std::string& path) {
  std::ifstream file{path};
  std::ostringstream text;
  text << file.rdbuf();
  std::string secret{trim(text.str())};
  if (secret.empty()) return fail(ErrorKind::unauthorized, fmt::format("{} cannot be read or is empty", path));
  return secret;
}

bool keeps_secrets(std::string_view url) {
  if (url.starts_with("https://")) return true;
  constexpr std::string_view front = "http://";
  if (!url.starts_with(front)) return false;
  std::string_view host = url.substr(front.size());
  host = host.substr(0, host.find_first_of("/?#"));
  if (host.find('@') != std::string_view::npos) return false;
  host = host.starts_with('[') ? host.substr(0, host.find(']') + 1) : host.substr(0, host.find(':'));
  const bool is_loopback = host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos;
  return is_loopback || host == "localhost" || host == "[::1]";
}

std::string origin_of(std::string_view url) {
  const std::size_t begin = url.find("://");
  return std::string{url.substr(0, url.find_first_of("/?#", begin == std::string_view::npos ? 0 : begin + 3))};
}

}  // namespace trainyard::storage
