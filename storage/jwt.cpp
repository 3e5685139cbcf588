#include "storage/jwt.hpp"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <algorithm>
#include <memory>

#include "common/base64.hpp"

namespace trainyard::storage {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using PrivateKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

// Given to OpenSSL, which would otherwise ask for the key's passphrase at the terminal.
int no_passphrase(char*, int, int, void*) {
  return 0;
}

tl::unexpected<Error> no_key() {
  ERR_clear_error();
  return fail(ErrorKind::unauthorized, "the private key is not an RSA key in PEM");
}

}  // namespace

std::string encode_base64url(std::string_view bytes) {
  std::string text = encode_base64(bytes);
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  text.erase(text.find_last_not_of('=') + 1);
  return text;
}

Result<std::string> signed_jwt(std::string_view header, std::string_view claims, std::string_view private_key) {
  const Bio bio{BIO_new_mem_buf(private_key.data(), static_cast<int>(private_key.size())), &BIO_free};
  if (!bio) return no_key();
  const PrivateKey key{PEM_read_bio_PrivateKey(bio.get(), nullptr, &no_passphrase, nullptr), &EVP_PKEY_free};
  if (!key || EVP_PKEY_is_a(key.get(), "RSA") != 1) return no_key();
  std::string text = fmt::format("{}.{}", encode_base64url(header), encode_base64url(claims));
  const DigestContext context{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t length = 0;
  if (!context || EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &length, bytes, text.size()) != 1) {
    return no_key();
  }
  std::string signature(length, '\0');
  auto* into = reinterpret_cast<unsigned char*>(signature.data());
  if (EVP_DigestSign(context.get(), into, &length, bytes, text.size()) != 1) return no_key();
  signature.resize(length);
  return fmt::format("{}.{}", text, encode_base64url(signature));
}

}  // namespace trainyard::storage
