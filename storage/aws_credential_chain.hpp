#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/credentials.hpp"
#include "storage/sigv4.hpp"

namespace trainyard::storage {

/// One place where credentials may be.
struct AwsCredentialSource {
  std::string name;  ///< "the environment"
  /// not_found when nothing is set up here; the message says what is missing. Any other error: it is set up and fails.
  std::function<Result<Credentials>()> get;
  /// True for a source that is tried though no setting names it, such as the instance's metadata service. An error of
  /// its first try may only mean that it does not exist here.
  bool is_a_guess = false;
};

/// The credentials for s3:// of the first source that has some, renewed before they expire. aws_credential_sources()
/// gives the order: the environment's key, web identity, the profile, the container's agent, the instance's metadata.
/// credentials.hpp has the order of the other clouds. Any thread may call.
class AwsCredentialChain {
 public:
  explicit AwsCredentialChain(std::vector<AwsCredentialSource> sources,
                              std::shared_ptr<const Clock> clock = std::make_shared<const SystemClock>());

  /// Credentials to sign with now. The source is chosen once, and a process never changes to another. A source that is
  /// set up and fails ends the search. Errors: unauthorized when no source has credentials, unavailable when a source
  /// that is a guess may have some later; the message says what each source lacks. Never not_found, which would mean a
  /// missing object.
  [[nodiscard]] Result<Credentials> get() { return renewed_.get(); }

  /// The server says that `credentials` have expired, whatever their expiry: get() asks the source again.
  void refuse(const Credentials& credentials) { renewed_.refuse(credentials); }

  /// The last two results of get(), the later one first, each empty where there is none: requests that were signed with
  /// either may still be in flight. Never asks a source.
  [[nodiscard]] std::array<Credentials, 2> recent() const { return renewed_.recent(); }

 private:
  [[nodiscard]] Result<Credentials> look();

  const std::vector<AwsCredentialSource> sources_;
  const AwsCredentialSource* chosen_ = nullptr;  // Only look() uses it, which one thread at a time calls.
  Renewed<Credentials> renewed_;
};

}  // namespace trainyard::storage
