#include "storage/arrow/gcs_settings.hpp"

#include <fmt/format.h>

namespace trainyard::storage {

std::string GcsSettings::url() const {
  return emulator ? fmt::format("{}://{}/", emulator->scheme, emulator->authority) : "https://storage.googleapis.com/";
}

Result<GcsSettings> gcs_settings(const Environment& environment) {
  for (const char* name : {"STORAGE_EMULATOR_HOST", "CLOUD_STORAGE_EMULATOR_ENDPOINT"}) {
    const std::string text = first_of(environment, {name});
    if (text.empty()) continue;
    return parse_endpoint(name, text).map([](Endpoint endpoint) {
      return GcsSettings{.emulator = std::move(endpoint)};
    });
  }
  return GcsSettings{};
}

}  // namespace trainyard::storage
