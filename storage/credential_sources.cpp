#include "storage/credential_sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include "storage/credential_reply.hpp"
#include "storage/http_client.hpp"
#include "storage/sigv4.hpp"

namespace trainyard::storage {
namespace {

using namespace std::chrono_literals;

constexpr auto deadline = 5s;
constexpr auto metadata_deadline = 1s;  // On a machine that has none, it is all lost time.
constexpr std::string_view container_host = "http://169.254.170.2";

/// One request whose reply of any status `parse` judges.
template <typename T, typename Parse>
Result<T> ask(HttpClient& http, const std::string& doing, const HttpRequest& request, const Parse& parse) {
  Result<T> answer;
  const HttpCall call{.doing = doing,
                      .make = [&] { return request; },
                      .accept = [&](const HttpReply& reply) -> Result<void> {
                        answer = parse(reply);
                        return answer ? Result<void>{} : fail(doing, answer.error());
                      }};
  if (auto asked = http.perform({&call, 1}, 1); !asked) return tl::unexpected(asked.error());
  return answer;
}

HttpTuning tuning_of(std::chrono::milliseconds limit, const Environment& environment) {
  return {.connect_timeout = limit,
          .patience = limit,
          .first_patience = limit,
          .ca_bundle = first_of(environment, {"AWS_CA_BUNDLE"})};
}

// Without the white space that editors leave at the end.
Result<std::string> read_token(const std::string& path) {
  std::ifstream file{path};
  std::ostringstream text;
  text << file.rdbuf();
  std::string token = text.str();
  token.erase(token.find_last_not_of(" \t\r\n") + 1);
  if (!file || token.empty()) return fail(ErrorKind::unauthorized, fmt::format("{} holds no token", path));
  return token;
}

Result<Credentials> environment_credentials(const Environment& environment) {
  Credentials credentials{.access_key_id = first_of(environment, {"AWS_ACCESS_KEY_ID"}),
                          .secret_access_key = first_of(environment, {"AWS_SECRET_ACCESS_KEY"}),
                          .session_token = first_of(environment, {"AWS_SESSION_TOKEN"})};
  const bool has_id = !credentials.access_key_id.empty();
  const bool has_secret = !credentials.secret_access_key.empty();
  if (has_id && has_secret) return credentials;
  if (!has_id && !has_secret) return fail(ErrorKind::not_found, "AWS_ACCESS_KEY_ID is not set");
  return fail(ErrorKind::unauthorized, fmt::format("{} is not set, though the other half of the key is",
                                                   has_id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID"));
}

Result<Credentials> web_identity_credentials(HttpClient& http, const Environment& environment,
                                             const std::string& region) {
  const std::string file = first_of(environment, {"AWS_WEB_IDENTITY_TOKEN_FILE"});
  const std::string role = first_of(environment, {"AWS_ROLE_ARN"});
  if (file.empty()) return fail(ErrorKind::not_found, "AWS_WEB_IDENTITY_TOKEN_FILE is not set");
  if (role.empty())
    return fail(ErrorKind::unauthorized, "AWS_ROLE_ARN is not set, though AWS_WEB_IDENTITY_TOKEN_FILE is");
  const auto token = read_token(file);
  if (!token) return tl::unexpected(token.error());
  std::string session = first_of(environment, {"AWS_ROLE_SESSION_NAME"});
  if (session.empty()) session = "trainyard";
  const std::string form = canonical_query({{"Action", "AssumeRoleWithWebIdentity"},
                                            {"Version", "2011-06-15"},
                                            {"RoleArn", role},
                                            {"RoleSessionName", session},
                                            {"WebIdentityToken", *token}});
  const std::string url = sts_url(environment, region);
  return ask<Credentials>(http, fmt::format("taking on the role {} at {}", role, url),
                          {.method = "POST",
                           .url = url + "/",
                           .headers = {{"content-type", "application/x-www-form-urlencoded"}},
                           .body = {std::as_bytes(std::span{form})},
                           .deadline = deadline},
                          [&](const HttpReply& reply) { return parse_sts_reply(reply, *token); });
}

// Without a path, which could hold a secret.
std::string host_of(const std::string& url) {
  const std::size_t begin = url.find("://");
  return url.substr(0, url.find('/', begin == std::string::npos ? 0 : begin + 3));
}

Result<Credentials> container_credentials(HttpClient& http, const Environment& environment) {
  const auto url = container_url(environment);
  if (!url) return tl::unexpected(url.error());
  std::string token = first_of(environment, {"AWS_CONTAINER_AUTHORIZATION_TOKEN"});
  if (const std::string file = first_of(environment, {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"}); !file.empty()) {
    auto read = read_token(file);
    if (!read) return tl::unexpected(read.error());
    token = std::move(*read);
  }
  if (token.find_first_of("\r\n") != std::string::npos)
    return fail(ErrorKind::invalid, "the container agent's token holds more than one line");
  HttpRequest request{.method = "GET", .url = *url, .deadline = deadline, .is_direct = true};
  if (!token.empty()) request.headers["authorization"] = token;
  return ask<Credentials>(http, fmt::format("asking {}", host_of(*url)), request,
                          [&](const HttpReply& reply) { return parse_json_reply(reply, token); });
}

Result<Credentials> metadata_credentials(HttpClient& http, const Environment& environment) {
  const auto url = metadata_url(environment);
  if (!url) return tl::unexpected(url.error());
  const std::string doing = fmt::format("asking {}", *url);
  const auto text_of = [](const HttpReply& reply) -> Result<std::string> {
    if (reply.status / 100 != 2) return tl::unexpected(refusal_of(reply, {}));
    return reply.body.substr(0, reply.body.find_first_of("\r\n"));
  };
  const auto token = ask<std::string>(http, doing,
                                      {.method = "PUT",
                                       .url = *url + "/latest/api/token",
                                       .headers = {{"x-aws-ec2-metadata-token-ttl-seconds", "21600"}},
                                       .deadline = metadata_deadline,
                                       .is_direct = true},
                                      text_of);
  if (!token) return tl::unexpected(token.error());
  const auto get = [&](const std::string& path) -> HttpRequest {
    return {.method = "GET",
            .url = fmt::format("{}/latest/meta-data/iam/security-credentials/{}", *url, path),
            .headers = {{"x-aws-ec2-metadata-token", *token}},
            .deadline = metadata_deadline,
            .is_direct = true};
  };
  const auto role = ask<std::string>(http, doing + " for the instance's role", get(""), text_of);
  if (!role) return tl::unexpected(role.error());
  if (role->empty()) return fail(ErrorKind::unauthorized, doing + ": the instance has no role");
  return ask<Credentials>(http, fmt::format("{} for the role {}", doing, *role), get(percent_encoded(*role, false)),
                          [&](const HttpReply& reply) { return parse_json_reply(reply, *token); });
}

}  // namespace

std::string sts_url(const Environment& environment, const std::string& region) {
  std::string url = first_of(environment, {"AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"});
  while (url.ends_with('/')) url.pop_back();
  if (!url.empty()) return url;
  return fmt::format("https://sts.{}.amazonaws.com{}", region, region.starts_with("cn-") ? ".cn" : "");
}

Result<std::string> container_url(const Environment& environment) {
  if (const std::string path = first_of(environment, {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"}); !path.empty()) {
    if (!path.starts_with('/'))
      return fail(ErrorKind::invalid, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI does not begin with a slash");
    return fmt::format("{}{}", container_host, path);
  }
  const std::string url = first_of(environment, {"AWS_CONTAINER_CREDENTIALS_FULL_URI"});
  if (url.empty()) return fail(ErrorKind::not_found, "AWS_CONTAINER_CREDENTIALS_FULL_URI is not set");
  if (url.starts_with("https://")) return url;
  constexpr std::string_view front = "http://";
  std::string_view host = std::string_view{url}.substr(std::min(url.size(), front.size()));
  host = host.substr(0, host.find_first_of("/?#"));
  const bool has_user = host.find('@') != std::string_view::npos;
  host = host.starts_with('[') ? host.substr(0, host.find(']') + 1) : host.substr(0, host.find(':'));
  const bool is_loopback =
      host == "localhost" || host == "[::1]" ||
      (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos);
  const bool is_agent = host == "169.254.170.2" || host == "169.254.170.23" || host == "[fd00:ec2::23]";
  if (url.starts_with(front) && !has_user && (is_loopback || is_agent)) return url;
  return fail(ErrorKind::invalid,
              "AWS_CONTAINER_CREDENTIALS_FULL_URI is refused: without https:// it must name a loopback address, "
              "169.254.170.2, 169.254.170.23 or [fd00:ec2::23]");
}

Result<std::string> metadata_url(const Environment& environment) {
  const auto low = [&](const char* name) {
    std::string text = first_of(environment, {name});
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
  };
  if (low("AWS_EC2_METADATA_DISABLED") == "true")
    return fail(ErrorKind::not_found, "AWS_EC2_METADATA_DISABLED is true");
  std::string url = first_of(environment, {"AWS_EC2_METADATA_SERVICE_ENDPOINT"});
  while (url.ends_with('/')) url.pop_back();
  if (!url.empty()) return url;
  return low("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE") == "ipv6" ? "http://[fd00:ec2::254]" : "http://169.254.169.254";
}

std::vector<CredentialSource> credential_sources(const Environment& environment, const std::string& region) {
  const auto http = std::make_shared<HttpClient>(tuning_of(deadline, environment));
  const auto metadata_http = std::make_shared<HttpClient>(tuning_of(metadata_deadline, environment));
  return {
      {"the environment", [environment] { return environment_credentials(environment); }},
      {"web identity", [environment, http, region] { return web_identity_credentials(*http, environment, region); }},
      {"the AWS tools' files", [environment] { return profile_credentials(read_profile(environment)); }},
      {"the container's agent", [environment, http] { return container_credentials(*http, environment); }},
      {"the instance's metadata",
       [environment, metadata_http] { return metadata_credentials(*metadata_http, environment); }, true}};
}

}  // namespace trainyard::storage
