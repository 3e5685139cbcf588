#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "storage/environment.hpp"
#include "storage/sigv4.hpp"

/// The files that the AWS tools keep for a user: ~/.aws/credentials and ~/.aws/config.
namespace trainyard::storage {

/// The values of one profile in the two files; where both have a value, the credentials file's is taken.
struct AwsProfile {
  std::string name;
  std::string files;                          ///< The two paths, for messages.
  bool is_there = false;                      ///< At least one of the files has a section for the profile.
  bool is_named = false;                      ///< AWS_PROFILE asks for it; otherwise it is the profile `default`.
  std::map<std::string, std::string> values;  ///< By key, in lower case.

  /// The value of `key`; empty when there is none.
  [[nodiscard]] std::string value(const std::string& key) const;
};

/// The values of the profile `name` in a file's text. In the credentials file its section is "[name]". In the
/// config file it is "[profile name]", except for "[default]" and for names that begin with "sso-session ", whose
/// section is "[name]". Nested values are skipped. Empty when there is no such section. Pure.
[[nodiscard]] std::optional<std::map<std::string, std::string>> parse_profile(std::string_view text,
                                                                              std::string_view name, bool is_config);

/// Reads the files that AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE name, else those below HOME, for the profile of
/// AWS_PROFILE. A file that is missing or unreadable is treated as empty.
[[nodiscard]] AwsProfile read_profile(const Environment& environment);

/// Reads the two files for the profile `name`, and sets is_named.
[[nodiscard]] AwsProfile read_profile(const Environment& environment, const std::string& name);

/// The profile's key; invalid when half of it is missing.
[[nodiscard]] Result<Credentials> profile_key(const AwsProfile& profile);

}  // namespace trainyard::storage
