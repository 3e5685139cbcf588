#include "storage/aws_credential_chain.hpp"

#include <fmt/format.h>

#include <utility>

namespace trainyard::storage {

AwsCredentialChain::AwsCredentialChain(std::vector<AwsCredentialSource> sources, std::shared_ptr<const Clock> clock)
    : sources_{std::move(sources)}, renewed_{[this] { return look(); }, AfterExpiry::new_ones, std::move(clock)} {}

Result<Credentials> AwsCredentialChain::look() {
  if (chosen_ != nullptr)
    return chosen_->get().map_error([this](const Error& error) { return fail(chosen_->name, error).value(); });
  std::string tried;
  // A guess whose error is transient, such as a timeout, may have credentials later.
  ErrorKind kind = ErrorKind::unauthorized;
  for (const AwsCredentialSource& source : sources_) {
    auto credentials = source.get();
    if (credentials) {
      chosen_ = &source;
      return credentials;
    }
    if (credentials.error().kind != ErrorKind::not_found && !source.is_a_guess)
      return fail(source.name, credentials.error());
    if (is_transient(credentials.error().kind)) kind = ErrorKind::unavailable;
    tried += fmt::format("{}{}: {}", tried.empty() ? "" : "; ", source.name, credentials.error().message);
  }
  return fail(kind, fmt::format("no AWS credentials were found. {}. Name a Secret with a key in "
                                "checkpoint.credentialsSecret, or give the pod one of the others",
                                tried));
}

}  // namespace trainyard::storage
