#include "checkpoint/interchange/sha256.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "common/check.hpp"

namespace trainyard::checkpoint {

struct Sha256::State {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

Sha256::Sha256() : state_{std::make_unique<State>()} {
  check(EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr) == 1, "OpenSSL knows SHA-256");
}

Sha256::~Sha256() = default;

void Sha256::add(std::span<const std::byte> piece) {
  check(EVP_DigestUpdate(state_->context.get(), piece.data(), piece.size()) == 1, "OpenSSL computes a digest");
}

std::string Sha256::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int digest_bytes = 0;
  check(EVP_DigestFinal_ex(state_->context.get(), digest.data(), &digest_bytes) == 1, "OpenSSL computes a digest");
  std::string text;
  for (unsigned int i = 0; i < digest_bytes; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace trainyard::checkpoint
