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

/// All the ways by which a profile of the AWS tools' files says to get credentials.
namespace trainyard::storage {

enum class ProfileWay {
  key,             ///< aws_access_key_id, aws_secret_access_key, aws_session_token
  role,            ///< role_arn, with the key of source_profile or credential_source
  web_identity,    ///< role_arn, with the token in web_identity_token_file
  process,         ///< credential_process
  single_sign_on,  ///< sso_session or sso_start_url, with the token that `aws sso login` left
};

/// Which way the profile says; a role before its own key. not_found when it says none; invalid when it is asked for and
/// not there, or says one only in part, naming what is missing. Pure.
[[nodiscard]] Result<ProfileWay> way_of(const AwsProfile& profile);

/// The words of a command line: quotes keep spaces, a backslash keeps the next character. No shell's other signs mean
/// anything. ErrorKind::invalid for an open quote. Pure.
[[nodiscard]] Result<std::vector<std::string>> words_of_command(std::string_view text);

/// What a profile's ways need beside the files.
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
