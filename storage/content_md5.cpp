#include "storage/content_md5.hpp"

#include <openssl/evp.h>

#include <array>
#include <memory>

#include "common/text.hpp"

namespace trainyard::storage {

std::optional<std::string> content_md5(Pieces pieces) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int digest_bytes = 0;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
  bool is_good = context && EVP_DigestInit_ex(context.get(), EVP_md5(), nullptr) == 1;
  for (const auto& piece : pieces) {
    is_good = is_good && EVP_DigestUpdate(context.get(), piece.data(), piece.size()) == 1;
  }
  is_good = is_good && EVP_DigestFinal_ex(context.get(), digest.data(), &digest_bytes) == 1;
  if (!is_good) return std::nullopt;
  return encode_base64({reinterpret_cast<const char*>(digest.data()), digest_bytes});
}

bool is_other_md5(std::string_view told, Pieces pieces) {
  if (told.empty()) return false;
  const auto md5 = content_md5(pieces);
  return md5 && *md5 != told;
}

}  // namespace trainyard::storage
