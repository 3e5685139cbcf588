#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/aws_profile.hpp"
#include "storage/credential_service.hpp"
#include "storage/environment.hpp"
#include "storage/sigv4.hpp"

/// The ways in which a profile in the AWS tools' files can say where credentials come from.
namespace trainyard::storage {

enum class ProfileWay {
  key,             ///< aws_access_key_id, aws_secret_access_key, aws_session_token
  role,            ///< role_arn, with the key of source_profile or credential_source
  web_identity,    ///< role_arn, with the token in web_identity_token_file
  process,         ///< credential_process
  single_sign_on,  ///< sso_session or sso_start_url, with the token that `aws sso login` left
};

/// The way that the profile names; a role goes before a key of its own. not_found when it names none; invalid when the
/// profile was asked for and does not exist, or when something is missing, which the message names. Pure.
[[nodiscard]] Result<ProfileWay> way_of(const AwsProfile& profile);

/// The words of a command line: quotes keep spaces, a backslash keeps the next character. Nothing else has the meaning
/// that a shell gives it. ErrorKind::invalid for an open quote. Pure.
[[nodiscard]] Result<std::vector<std::string>> words_of_command(std::string_view text);

/// What is needed beside the files to follow a profile's way.
struct ProfileWorld {
  Environment environment;
  std::string region;  ///< Whose STS is asked.
  std::shared_ptr<CredentialService> service;
  /// The credentials of Environment, EcsContainer or Ec2InstanceMetadata, as credential_source names them; invalid for
  /// another name.
  std::function<Result<Credentials>(const std::string& source)> of_source;
  /// The role `role` for the token in the file `token_file`.
  std::function<Result<Credentials>(const std::string& role, const std::string& token_file)> of_web_identity;
  std::chrono::milliseconds program_deadline{60'000};  ///< Of one run of a credential_process.
  std::shared_ptr<const Clock> clock = std::make_shared<const SystemClock>();
};

/// The profile's credentials. A role's source profile may name another role, some times over. Errors: not_found when it
/// has none; unavailable and throttled for what may pass; unauthorized when a service refuses what was sent, or a login
/// has ended; invalid for a profile that is not right. No message holds a secret.
[[nodiscard]] Result<Credentials> credentials_of_profile(const AwsProfile& profile, const ProfileWorld& world);

}  // namespace trainyard::storage
