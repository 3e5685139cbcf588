#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.hpp"
#include "common/result.hpp"
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
/// The order for gs:// and az:// is at open_store() (store.hpp). Any thread may call. One thread at a time asks a
/// source; meanwhile the other threads use the credentials that are still valid.
class AwsCredentialChain {
 public:
  explicit AwsCredentialChain(std::vector<AwsCredentialSource> sources,
                              std::shared_ptr<const Clock> clock = std::make_shared<const SystemClock>());

  /// Credentials to sign with now. The source is chosen once, and a process never changes to another. A source that is
  /// set up and fails ends the search. Errors: unauthorized when no source has credentials, unavailable when a guess
  /// may have some later; the message says what each source lacks. Never not_found, which would mean a missing object.
  [[nodiscard]] Result<Credentials> get();

  /// The server says that `credentials` have expired, whatever their expiry: get() asks the source again.
  void refuse(const Credentials& credentials);

  /// The last result of get(); empty before the first. Never asks a source.
  [[nodiscard]] Credentials last() const;
  /// The last two results of get(): requests that were signed with either may still be in flight.
  [[nodiscard]] std::array<Credentials, 2> recent() const;

 private:
  [[nodiscard]] Result<Credentials> look(const AwsCredentialSource* chosen, const AwsCredentialSource*& found) const;
  [[nodiscard]] bool is_valid(Time now) const;
  [[nodiscard]] Result<Credentials> take(Result<Credentials> found);

  const std::vector<AwsCredentialSource> sources_;
  const std::shared_ptr<const Clock> clock_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable looked_;
  const AwsCredentialSource* chosen_ = nullptr;
  std::optional<Credentials> current_;
  Credentials former_;
  bool is_refused_ = false;  // By the server.
  bool is_looking_ = false;
  bool has_warned_ = false;
  Time next_look_{};
  std::uint64_t look_count_ = 0;
  std::optional<Error> last_error_;  // Of the last look.
};

}  // namespace trainyard::storage
