#include "operator/manifest/request_token.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>

#include "common/check.hpp"

namespace trainyard::manifest {

bool takes_requests(const api::TrainingJobSpec& spec) {
  return spec.training.has_value() && spec.checkpoint.has_value();
}

std::string make_request_key() {
  std::array<unsigned char, 32> bytes{};
  check(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1, "OpenSSL has random bytes");
  return {bytes.begin(), bytes.end()};
}

std::string request_token(std::string_view key, const api::TrainingJob& job, std::int64_t pod_index) {
  constexpr std::size_t token_bytes = 16;
  const std::string text = fmt::format("{}/{}/{}", job.metadata.uid, job.status.attempt, pod_index);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int digest_bytes = 0;
  const auto* done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
           text.size(), digest.data(), &digest_bytes);
  check(done != nullptr && digest_bytes >= token_bytes, "OpenSSL computes an HMAC");
  std::string token;
  for (std::size_t index = 0; index < token_bytes; ++index) token += fmt::format("{:02x}", digest[index]);
  return token;
}

}  // namespace trainyard::manifest
