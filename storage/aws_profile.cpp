#include "storage/aws_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <optional>
#include <sstream>

#include "common/text.hpp"

namespace trainyard::storage {
namespace {

std::string_view without_comment(std::string_view value) {
  for (std::size_t i = 1; i < value.size(); ++i) {
    const bool begins_comment = value[i] == '#' || value[i] == ';';
    if (begins_comment && std::isspace(static_cast<unsigned char>(value[i - 1])) != 0) return value.substr(0, i);
  }
  return value;
}

// The name of the profile whose section the line "[...]" begins; empty for any other section.
std::string_view profile_of(std::string_view line, bool is_config) {
  const std::size_t end = line.find(']');
  if (end == std::string_view::npos) return {};
  const std::string_view title = trim(line.substr(1, end - 1));
  constexpr std::string_view word = "profile";
  if (!is_config || title == "default" || title.starts_with("sso-session ")) return title;
  const bool is_profile = title.size() > word.size() && title.starts_with(word) &&
                          std::isspace(static_cast<unsigned char>(title[word.size()])) != 0;
  return is_profile ? trim(title.substr(word.size())) : std::string_view{};
}

std::string path_of(const Environment& environment, const char* variable, std::string_view file) {
  const std::string home = first_of(environment, {"HOME"});
  std::string path = first_of(environment, {variable});
  if (path.empty()) return fmt::format("{}/.aws/{}", home, file);
  return path.starts_with("~/") ? home + path.substr(1) : path;
}

void add_values(const std::string& path, bool is_config, AwsProfile& profile) {
  std::ostringstream text;
  text << std::ifstream{path}.rdbuf();
  auto values = parse_profile(text.str(), profile.name, is_config);
  if (!values) return;
  profile.is_there = true;
  for (auto& [key, value] : *values) profile.values[key] = std::move(value);
}

}  // namespace

std::string AwsProfile::value(const std::string& key) const {
  const auto found = values.find(key);
  return found == values.end() ? std::string{} : found->second;
}

std::optional<std::map<std::string, std::string>> parse_profile(std::string_view text, std::string_view name,
                                                                bool is_config) {
  std::optional<std::map<std::string, std::string>> values;
  bool is_inside = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view whole_line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view line = trim(whole_line);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      is_inside = profile_of(line, is_config) == name;
      if (is_inside && !values) values.emplace();
      continue;
    }
    const std::size_t equals = line.find('=');
    const bool is_nested = std::isspace(static_cast<unsigned char>(whole_line.front())) != 0;
    if (!is_inside || is_nested || equals == std::string_view::npos) continue;
    (*values)[to_lower(trim(line.substr(0, equals)))] = trim(without_comment(line.substr(equals + 1)));
  }
  return values;
}

AwsProfile read_profile(const Environment& environment) {
  const std::string name = first_of(environment, {"AWS_PROFILE", "AWS_DEFAULT_PROFILE"});
  if (!name.empty()) return read_profile(environment, name);
  AwsProfile profile = read_profile(environment, "default");
  profile.is_named = false;
  return profile;
}

AwsProfile read_profile(const Environment& environment, const std::string& name) {
  AwsProfile profile{.name = name, .files = {}, .is_named = true};
  const std::string config = path_of(environment, "AWS_CONFIG_FILE", "config");
  const std::string credentials = path_of(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials");
  profile.files = fmt::format("{} and {}", credentials, config);
  add_values(config, true, profile);
  add_values(credentials, false, profile);
  return profile;
}

Result<Credentials> profile_key(const AwsProfile& profile) {
  Credentials credentials{.access_key_id = profile.value("aws_access_key_id"),
                          .secret_access_key = profile.value("aws_secret_access_key"),
                          .session_token = profile.value("aws_session_token")};
  for (const char* half : {"aws_access_key_id", "aws_secret_access_key"}) {
    if (profile.value(half).empty())
      return fail(ErrorKind::invalid,
                  fmt::format("the profile '{}' of {} has no {}", profile.name, profile.files, half));
  }
  return credentials;
}

}  // namespace trainyard::storage
