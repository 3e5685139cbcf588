#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/aws_credential_service.hpp"
#include "storage/aws_profile.hpp"
#include "storage/environment.hpp"
#include "storage/sigv4.hpp"

/// The ways in which a profile in the files of the AWS tools gives credentials.
namespace trainyard::storage {

enum class ProfileWay {
  key,             ///< aws_access_key_id, aws_secret_access_key, aws_session_token
  role,            ///< role_arn, with the key of source_profile or credential_source
  web_identity,    ///< role_arn, with the token in web_identity_token_file
  process,         ///< credential_process
  single_sign_on,  ///< sso_session or sso_start_url, with the token that `aws sso login` left
};

/// The way that the profile names; a role takes precedence over the profile's own key. not_found when it names none.
/// invalid when the profile was asked for and does not exist, or lacks a value, which the message names. Pure.
[[nodiscard]] Result<ProfileWay> way_of(const AwsProfile& profile);

/// The words of a command line: quotes keep spaces, a backslash keeps the next character. Nothing else has the meaning
/// that a shell gives it. ErrorKind::invalid for an open quote. Pure.
[[nodiscard]] Result<std::vector<std::string>> words_of_command(std::string_view text);

/// The surroundings in which credentials_of_profile() reads a profile.
struct ProfileWorld {
  Environment environment;
  std::string region;  ///< Selects the STS server.
  std::shared_ptr<AwsCredentialService> service;
  /// The credentials of Environment, EcsContainer or Ec2InstanceMetadata, as credential_source names them; invalid for
  /// another name.
  std::function<Result<Credentials>(const std::string& source)> of_source;
  /// The credentials of the role `role`, for the token in the file `token_file`.
  std::function<Result<Credentials>(const std::string& role, const std::string& token_file)> of_web_identity;
  std::chrono::milliseconds program_deadline{60'000};  ///< Limit of one start of a credential_process.
  std::shared_ptr<const Clock> clock = std::make_shared<const SystemClock>();
};

/// The profile's credentials. The source profile of a role may name another role, up to five in all. Errors: not_found
/// when the profile has no credentials; unavailable and throttled when a later try may succeed; unauthorized when a
/// service refuses the request or a login has ended; invalid when the profile is wrong. No message holds a secret.
[[nodiscard]] Result<Credentials> credentials_of_profile(const AwsProfile& profile, const ProfileWorld& world);

}  // namespace trainyard::storage
