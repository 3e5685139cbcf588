#include "operator/kube/base64.hpp"

#include <openssl/evp.h>

namespace trainyard::kube {

Result<std::string> decode_base64(std::string_view text) {
  std::string dense;
  for (const char character : text) {
    if (character != '\n' && character != '\r' && character != ' ') dense += character;
  }
  std::size_t padding = 0;
  while (padding < 2 && padding < dense.size() && dense[dense.size() - 1 - padding] == '=') ++padding;
  std::string bytes(dense.size() / 4 * 3, '\0');
  const int decoded =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                      reinterpret_cast<const unsigned char*>(dense.data()), static_cast<int>(dense.size()));
  // OpenSSL decodes a `=` anywhere, to zero bits.
  const bool is_padded_within = dense.find('=') < dense.size() - padding;
  if (decoded < 0 || dense.size() % 4 != 0 || is_padded_within) return fail(ErrorKind::invalid, "it is not base64");
  bytes.resize(static_cast<std::size_t>(decoded) - padding);
  return bytes;
}

}  // namespace trainyard::kube
