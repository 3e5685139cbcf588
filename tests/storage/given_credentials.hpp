#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "storage/aws_credential_chain.hpp"

namespace trainyard::storage {

/// A chain that always gives these credentials, and has given them once.
inline std::shared_ptr<AwsCredentialChain> given_credentials(const Credentials& credentials) {
  std::vector<AwsCredentialSource> sources = {
      {"the test", [credentials]() -> Result<Credentials> { return credentials; }}};
  auto chain = std::make_shared<AwsCredentialChain>(std::move(sources));
  [[maybe_unused]] const auto given = chain->get();
  return chain;
}

}  // namespace trainyard::storage
