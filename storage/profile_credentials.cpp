#include "storage/profile_credentials.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/child_program.hpp"
#include "common/time_text.hpp"
#include "common/try.hpp"
#include "storage/aws_credential_service.hpp"
#include "storage/aws_credential_sources.hpp"
#include "storage/server_error.hpp"

namespace trainyard::storage {
namespace {

constexpr int roles_max = 5;  // Longest chain of source profiles; a longer one is taken for a circle.
constexpr std::size_t login_bytes_max = std::size_t{64} << 10;

tl::unexpected<Error> refuse_profile(const AwsProfile& profile, ErrorKind kind, std::string_view why) {
  return fail(kind, fmt::format("the profile '{}' of {} {}", profile.name, profile.files, why));
}

/// The SSO session that `aws sso login` opens, as the profile names it.
struct Login {
  std::string region;
  std::string cached_as;  // The SHA-1 of this text names the token's file.
};

Result<Login> login_of(const AwsProfile& profile, const Environment& environment) {
  const std::string name = profile.value("sso_session");
  const AwsProfile session = name.empty() ? profile : read_profile(environment, fmt::format("sso-session {}", name));
  Login login{.region = session.value("sso_region"), .cached_as = name.empty() ? session.value("sso_start_url") : name};
  if (login.region.empty())
    return refuse_profile(
        profile, ErrorKind::invalid,
        name.empty() ? "has no sso_region" : fmt::format("names the sso-session '{}', which has no sso_region", name));
  return login;
}

Result<std::string> sha1_text(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int digest_bytes = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &digest_bytes, EVP_sha1(), nullptr) != 1)
    return fail(ErrorKind::invalid, "the cryptography here is without SHA-1, which names the file of the login");
  std::string hexadecimal;
  for (unsigned int i = 0; i < digest_bytes; ++i) hexadecimal += fmt::format("{:02x}", digest.at(i));
  return hexadecimal;
}

// The token that `aws sso login` left.
Result<std::string> login_token(const Login& login, const ProfileWorld& world) {
  const auto name = TRY(sha1_text(login.cached_as));
  const std::string path = fmt::format("{}/.aws/sso/cache/{}.json", first_of(world.environment, {"HOME"}), name);
  std::ifstream file{path};
  std::string text(login_bytes_max, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  const auto object = nlohmann::json::parse(text, nullptr, false);
  const auto text_in = [&](const char* field) {
    return object.is_object() && object.contains(field) && object[field].is_string() ? object[field].get<std::string>()
                                                                                     : std::string{};
  };
  const auto expiry = parse_rfc3339(text_in("expiresAt"));
  if (text_in("accessToken").empty() || !expiry || *expiry <= world.clock->now()) {
    return fail(ErrorKind::unauthorized, fmt::format("the login that {} should hold is {}: run aws sso login", path,
                                                     text_in("accessToken").empty() || !expiry ? "not there" : "over"));
  }
  return text_in("accessToken");
}

Result<Credentials> by_login(const AwsProfile& profile, const ProfileWorld& world) {
  const auto login = TRY(login_of(profile, world.environment));
  const auto token = TRY(login_token(login, world));
  std::string url = first_of(world.environment, {"AWS_ENDPOINT_URL_SSO", "AWS_ENDPOINT_URL"});
  while (url.ends_with('/')) url.pop_back();
  if (url.empty()) url = fmt::format("https://portal.sso.{}.amazonaws.com", login.region);
  const std::string query =
      canonical_query({{"account_id", profile.value("sso_account_id")}, {"role_name", profile.value("sso_role_name")}});
  return world.service->ask<Credentials>(fmt::format("asking {} for the role {}", url, profile.value("sso_role_name")),
                                         {.method = "GET",
                                          .url = fmt::format("{}/federation/credentials?{}", url, query),
                                          .headers = {{"x-amz-sso_bearer_token", token}}},
                                         [&](const HttpReply& reply) { return parse_sso_reply(reply, token); });
}

Result<Credentials> by_process(const AwsProfile& profile, const ProfileWorld& world) {
  auto words = words_of_command(profile.value("credential_process"));
  if (!words || words->empty())
    return refuse_profile(profile, ErrorKind::invalid, "has a credential_process that is no command");
  // env(1) finds a program in PATH.
  const std::string program = words->front();
  if (program.find('/') == std::string::npos) words->insert(words->begin(), "/usr/bin/env");
  const auto end = run_program(*words, world.program_deadline);
  if (!end) return fail(fmt::format("running the credential_process {}", program), end.error());
  if (end->exit_code != 0) {
    // The cause of the failure is unknown, so it may pass.
    return fail(ErrorKind::unavailable, fmt::format("the credential_process {} ended with exit code {}: {}", program,
                                                    end->exit_code, sanitize_server_text(end->words, {})));
  }
  auto parsed = parse_process_output(end->output);
  if (!parsed) return fail(fmt::format("the credential_process {}", program), parsed.error());
  return parsed;
}

Result<Credentials> take_on_role(const AwsProfile& profile, const Credentials& source, const ProfileWorld& world) {
  const auto value_or = [&](const char* key, const char* otherwise) {
    const std::string value = profile.value(key);
    return value.empty() ? std::string{otherwise} : value;
  };
  std::vector<std::pair<std::string, std::string>> fields = {
      {"Action", "AssumeRole"},
      {"Version", "2011-06-15"},
      {"RoleArn", profile.value("role_arn")},
      {"RoleSessionName", value_or("role_session_name", "trainyard")}};
  if (const std::string id = profile.value("external_id"); !id.empty()) fields.emplace_back("ExternalId", id);
  if (const std::string seconds = profile.value("duration_seconds"); !seconds.empty())
    fields.emplace_back("DurationSeconds", seconds);
  const std::string form = canonical_query(fields);
  const std::string url = sts_url(world.environment, world.region);
  const std::string date = amz_date(world.clock->now());
  SignedParts parts{.method = "POST",
                    .path = "/",
                    .query = {},
                    .headers = {{"content-type", "application/x-www-form-urlencoded"},
                                {"host", url.substr(url.find("://") + 3)},
                                {"x-amz-date", date}},
                    .payload_hash = sha256_text(form)};
  if (!source.session_token.empty()) parts.headers["x-amz-security-token"] = source.session_token;
  HttpRequest request{
      .method = "POST", .url = url + "/", .headers = parts.headers, .body = {std::as_bytes(std::span{form})}};
  request.headers["authorization"] = authorization(parts, source, {world.region, "sts"}, date);
  return world.service->ask<Credentials>(
      fmt::format("assuming the role {} at {}", profile.value("role_arn"), url), std::move(request),
      [&](const HttpReply& reply) { return parse_sts_reply(reply, source.secret_access_key); });
}

Result<Credentials> credentials_within(const AwsProfile& profile, const ProfileWorld& world, int roles_left);

Result<Credentials> source_of_role(const AwsProfile& profile, const ProfileWorld& world, int roles_left) {
  const std::string named = profile.value("source_profile");
  if (named.empty()) return world.of_source(profile.value("credential_source"));
  // A profile that names itself means its own key.
  if (named == profile.name) return profile_key(profile);
  if (roles_left > 0) return credentials_within(read_profile(world.environment, named), world, roles_left - 1);
  return refuse_profile(
      profile, ErrorKind::invalid,
      fmt::format(
          "is the last of more than {} roles, each the source of the next: does source_profile lead in a circle?",
          roles_max));
}

Result<Credentials> credentials_within(const AwsProfile& profile, const ProfileWorld& world, int roles_left) {
  const auto way = TRY(way_of(profile));
  switch (way) {
    case ProfileWay::key:
      return profile_key(profile);
    case ProfileWay::process:
      return by_process(profile, world);
    case ProfileWay::single_sign_on:
      return by_login(profile, world);
    case ProfileWay::web_identity:
      return world.of_web_identity(profile.value("role_arn"), profile.value("web_identity_token_file"));
    case ProfileWay::role:
      break;
  }
  auto source = source_of_role(profile, world, roles_left);
  // not_found would mean that the profile names no credentials. It names a role, whose source lacks something.
  if (!source && source.error().kind == ErrorKind::not_found) source.error().kind = ErrorKind::unauthorized;
  return source.and_then([&](const Credentials& key) { return take_on_role(profile, key, world); });
}

}  // namespace

Result<ProfileWay> way_of(const AwsProfile& profile) {
  const auto has = [&](const char* key) { return !profile.value(key).empty(); };
  if (!profile.is_there)
    return refuse_profile(profile, profile.is_named ? ErrorKind::invalid : ErrorKind::not_found,
                          profile.is_named ? "is not there, though it is asked for by name" : "is not there");
  if (has("role_arn")) {
    if (has("web_identity_token_file")) return ProfileWay::web_identity;
    if (has("source_profile") != has("credential_source")) return ProfileWay::role;
    return refuse_profile(profile, ErrorKind::invalid,
                          "has a role_arn: it must say either source_profile or credential_source, whose key takes "
                          "the role on");
  }
  if (has("sso_session") || has("sso_start_url")) {
    if (has("sso_account_id") && has("sso_role_name")) return ProfileWay::single_sign_on;
    return refuse_profile(profile, ErrorKind::invalid,
                          has("sso_account_id") ? "has no sso_role_name" : "has no sso_account_id");
  }
  if (has("aws_access_key_id") || has("aws_secret_access_key")) return ProfileWay::key;
  if (has("credential_process")) return ProfileWay::process;
  return refuse_profile(profile, ErrorKind::not_found, "has no aws_access_key_id");
}

Result<std::vector<std::string>> words_of_command(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool is_in_word = false;
  char quote = '\0';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      word += text[++i];
      is_in_word = true;
    } else if (quote != '\0') {
      if (c == quote)
        quote = '\0';
      else
        word += c;
    } else if (c == '"' || c == '\'') {
      quote = c;
      is_in_word = true;
    } else if (c == ' ' || c == '\t') {
      if (is_in_word) words.push_back(std::exchange(word, {}));
      is_in_word = false;
    } else {
      word += c;
      is_in_word = true;
    }
  }
  if (quote != '\0') return fail(ErrorKind::invalid, "a quote in the command has no end");
  if (is_in_word) words.push_back(std::move(word));
  return words;
}

Result<Credentials> credentials_of_profile(const AwsProfile& profile, const ProfileWorld& world) {
  return credentials_within(profile, world, roles_max);
}

}  // namespace trainyard::storage
