#include "checkpoint/format/sealed_json.hpp"

#include <fmt/format.h>

#include <utility>

#include "storage/crc32c.hpp"

namespace trainyard::checkpoint {
namespace {

constexpr const char* seal_field = "crc32c";

// nlohmann's dump is canonical: keys in order, shortest numbers. Bytes that are no UTF-8 are replaced, so that dump
// does not throw.
std::string canonical_text(const nlohmann::json& object) {
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string checksum_of(const nlohmann::json& object) {
  return storage::crc32c_text(storage::crc32c(canonical_text(object)));
}

}  // namespace

std::string seal(nlohmann::json object) {
  object.erase(seal_field);
  std::string checksum = checksum_of(object);
  object[seal_field] = std::move(checksum);
  return canonical_text(object);
}

Result<nlohmann::json> unseal(std::string_view text) {
  if (text.size() > sealed_bytes_max) {
    return fail(ErrorKind::corrupt,
                fmt::format("it has {} bytes, more than the limit of {}", text.size(), sealed_bytes_max));
  }
  nlohmann::json object = nlohmann::json::parse(text, nullptr, false);
  if (!object.is_object()) return fail(ErrorKind::corrupt, "it is not a JSON object");
  const auto checksum = object.find(seal_field);
  if (checksum == object.end() || !checksum->is_string()) return fail(ErrorKind::corrupt, "it has no checksum");
  const auto expected = checksum->get<std::string>();
  object.erase(checksum);
  if (checksum_of(object) != expected) return fail(ErrorKind::corrupt, "its checksum does not match");
  return object;
}

bool is_torn(std::string_view text) {
  return !nlohmann::json::accept(text);
}

}  // namespace trainyard::checkpoint
