#include "storage/aws_credential_sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "common/text.hpp"
#include "common/try.hpp"
#include "storage/aws_credential_service.hpp"
#include "storage/oauth.hpp"
#include "storage/profile_credentials.hpp"
#include "storage/sigv4.hpp"

namespace trainyard::storage {
namespace {

constexpr std::string_view container_host = "http://169.254.170.2";

HttpTuning http_tuning(std::chrono::milliseconds connect_timeout, const AwsCredentialTuning& tuning,
                       const Environment& environment) {
  return {.connect_timeout = connect_timeout,
          .patience = tuning.patience,
          .first_patience = tuning.patience,
          .ca_bundle = first_of(environment, {"AWS_CA_BUNDLE"})};
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

Result<Credentials> role_of_token(AwsCredentialService& service, const Environment& environment,
                                  const std::string& region, const std::string& role, const std::string& file) {
  const auto token = TRY(read_secret_file(file));
  std::string session = first_of(environment, {"AWS_ROLE_SESSION_NAME"});
  if (session.empty()) session = "trainyard";
  const std::string form = canonical_query({{"Action", "AssumeRoleWithWebIdentity"},
                                            {"Version", "2011-06-15"},
                                            {"RoleArn", role},
                                            {"RoleSessionName", session},
                                            {"WebIdentityToken", token}});
  const std::string url = sts_url(environment, region);
  return service.ask<Credentials>(fmt::format("assuming the role {} at {}", role, url),
                                  {.method = "POST",
                                   .url = url + "/",
                                   .headers = {{"content-type", "application/x-www-form-urlencoded"}},
                                   .body = {std::as_bytes(std::span{form})}},
                                  [&](const HttpReply& reply) { return parse_sts_reply(reply, token); });
}

Result<Credentials> web_identity_credentials(AwsCredentialService& service, const Environment& environment,
                                             const std::string& region) {
  const std::string file = first_of(environment, {"AWS_WEB_IDENTITY_TOKEN_FILE"});
  const std::string role = first_of(environment, {"AWS_ROLE_ARN"});
  if (file.empty()) return fail(ErrorKind::not_found, "AWS_WEB_IDENTITY_TOKEN_FILE is not set");
  if (role.empty())
    return fail(ErrorKind::unauthorized, "AWS_ROLE_ARN is not set, though AWS_WEB_IDENTITY_TOKEN_FILE is");
  return role_of_token(service, environment, region, role, file);
}

// The URL's origin alone: the path could hold a secret.
std::string host_of(const std::string& url) {
  const std::size_t begin = url.find("://");
  return url.substr(0, url.find('/', begin == std::string::npos ? 0 : begin + 3));
}

Result<Credentials> container_credentials(AwsCredentialService& service, const Environment& environment) {
  const auto url = TRY(container_url(environment));
  std::string token = first_of(environment, {"AWS_CONTAINER_AUTHORIZATION_TOKEN"});
  if (const std::string file = first_of(environment, {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"}); !file.empty()) {
    token = TRY(read_secret_file(file));
  }
  if (token.find_first_of("\r\n") != std::string::npos)
    return fail(ErrorKind::invalid, "the container agent's token holds more than one line");
  HttpRequest request{.method = "GET", .url = url, .is_direct = true};
  if (!token.empty()) request.headers["authorization"] = token;
  return service.ask<Credentials>(fmt::format("asking {}", host_of(url)), request,
                                  [&](const HttpReply& reply) { return parse_json_reply(reply, token); });
}

Result<Credentials> metadata_credentials(AwsCredentialService& service, const Environment& environment) {
  constexpr long unauthorized = 401;
  constexpr long forbidden = 403;
  const auto url = TRY(metadata_url(environment));
  const std::string doing = fmt::format("asking {}", url);
  bool is_answered = false;
  const auto text_of = [&](const HttpReply& reply) -> Result<std::string> {
    is_answered = true;
    if (reply.status / 100 == 2) return reply.body.substr(0, reply.body.find_first_of("\r\n"));
    Error error = refusal_of(reply, {});
    if (reply.status == unauthorized)
      error.kind = ErrorKind::unavailable;  // The session has ended: a new one must be begun.
    return tl::unexpected(error);
  };
  const auto token = service.ask<std::string>(doing,
                                              {.method = "PUT",
                                               .url = url + "/latest/api/token",
                                               .headers = {{"x-aws-ec2-metadata-token-ttl-seconds", "21600"}},
                                               .is_direct = true},
                                              [&](const HttpReply& reply) -> Result<std::string> {
                                                if (reply.status == forbidden)
                                                  return fail(ErrorKind::not_found, "it is switched off");
                                                return text_of(reply);
                                              });
  // There is no metadata server. A timeout is no such proof: the server may be busy.
  if (!token && !is_answered && token.error().kind == ErrorKind::unavailable)
    return fail(ErrorKind::not_found, token.error().message);
  TRY(token);
  const auto get = [&](const std::string& path) -> HttpRequest {
    return {.method = "GET",
            .url = fmt::format("{}/latest/meta-data/iam/security-credentials/{}", url, path),
            .headers = {{"x-aws-ec2-metadata-token", *token}},
            .is_direct = true};
  };
  const auto role = TRY(service.ask<std::string>(doing + " for the instance's role", get(""), text_of));
  if (role.empty()) return fail(ErrorKind::unauthorized, doing + ": the instance has no role");
  return service.ask<Credentials>(fmt::format("{} for the role {}", doing, role), get(percent_encoded(role, false)),
                                  [&](const HttpReply& reply) { return parse_json_reply(reply, *token); });
}

ProfileWorld profile_world(const Environment& environment, const std::string& region,
                           const std::shared_ptr<AwsCredentialService>& service,
                           const std::shared_ptr<AwsCredentialService>& metadata_service) {
  return {.environment = environment,
          .region = region,
          .service = service,
          .of_source = [=](const std::string& source) -> Result<Credentials> {
            if (source == "Environment") return environment_credentials(environment);
            if (source == "EcsContainer") return container_credentials(*service, environment);
            if (source == "Ec2InstanceMetadata") return metadata_credentials(*metadata_service, environment);
            return fail(ErrorKind::invalid,
                        fmt::format("credential_source is '{}': write Environment, EcsContainer or Ec2InstanceMetadata",
                                    source));
          },
          .of_web_identity =
              [=](const std::string& role, const std::string& token_file) {
                return role_of_token(*service, environment, region, role, token_file);
              }};
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
  const auto low = [&](const char* name) { return to_lower(first_of(environment, {name})); };
  if (low("AWS_EC2_METADATA_DISABLED") == "true")
    return fail(ErrorKind::not_found, "AWS_EC2_METADATA_DISABLED is true");
  std::string url = first_of(environment, {"AWS_EC2_METADATA_SERVICE_ENDPOINT"});
  while (url.ends_with('/')) url.pop_back();
  if (!url.empty()) return url;
  return low("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE") == "ipv6" ? "http://[fd00:ec2::254]" : "http://169.254.169.254";
}

std::vector<AwsCredentialSource> aws_credential_sources(const Environment& environment, const std::string& region,
                                                        const AwsCredentialTuning& tuning) {
  const auto service_of = [&](std::chrono::milliseconds connect_timeout) {
    return std::shared_ptr<AwsCredentialService>{new AwsCredentialService{
        .http = HttpClient{http_tuning(connect_timeout, tuning, environment)}, .deadline = tuning.deadline}};
  };
  const auto service = service_of(tuning.deadline);
  const auto metadata_service = service_of(tuning.metadata_connect_timeout);
  return {{"the environment", [environment] { return environment_credentials(environment); }},
          {"web identity",
           [environment, service, region] { return web_identity_credentials(*service, environment, region); }},
          {"the AWS tools' files",
           [world = profile_world(environment, region, service, metadata_service)] {
             return credentials_of_profile(read_profile(world.environment), world);
           }},
          {"the container's agent", [environment, service] { return container_credentials(*service, environment); }},
          {"the instance's metadata",
           [environment, metadata_service] { return metadata_credentials(*metadata_service, environment); }, true}};
}

}  // namespace trainyard::storage
