#include "operator/manager/request_key.hpp"

#include <openssl/rand.h>

#include <array>

#include "common/check.hpp"

namespace trainyard::manager {

std::string make_request_key() {
  std::array<unsigned char, 32> bytes{};
  check(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1, "OpenSSL has random bytes");
  return {bytes.begin(), bytes.end()};
}

}  // namespace trainyard::manager
