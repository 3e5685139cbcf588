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
struct CredentialSource {
  std::string name;  ///< "the environment"
  /// not_found: nothing is set up here, and the message says what is lacking. Another error: something is, and it
  /// fails.
  std::function<Result<Credentials>()> get;
  /// Nothing asks for it, so that whatever it says first may mean that it is not there.
  bool is_a_guess = false;
};

/// The credentials of the first source that has some, renewed before they expire. Any thread may call; one of them at a
/// time asks a source, and the others go on with what is still valid.
class CredentialChain {
 public:
  explicit CredentialChain(std::vector<CredentialSource> sources,
                           std::shared_ptr<const Clock> clock = std::make_shared<const SystemClock>());

  /// Credentials to sign with now. Which source has some is found once: a later failure of that one is its own error,
  /// so that a process never changes who it is. A source that is set up and fails ends the search. unauthorized when no
  /// source has any, unavailable when one that is a guess may have some later: the message says what each of them
  /// lacks. Never not_found, which would mean an object that does not exist.
  [[nodiscard]] Result<Credentials> get();

  /// The server says that these are expired, whatever their expiry: get() asks the source again.
  void refuse(const Credentials& credentials);

  /// What get() gave last; empty before. Never asks a source.
  [[nodiscard]] Credentials last() const;
  /// What get() gave last, and before that: requests that were signed with either may still be on their way.
  [[nodiscard]] std::array<Credentials, 2> recent() const;

 private:
  [[nodiscard]] Result<Credentials> look(const CredentialSource* chosen, const CredentialSource*& found) const;
  [[nodiscard]] bool is_valid(Time now) const;
  [[nodiscard]] Result<Credentials> take(Result<Credentials> found);

  const std::vector<CredentialSource> sources_;
  const std::shared_ptr<const Clock> clock_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable looked_;
  const CredentialSource* chosen_ = nullptr;
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
