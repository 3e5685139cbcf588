#pragma once

#include <optional>
#include <string>

#include "common/result.hpp"
#include "storage/arrow/endpoint.hpp"
#include "storage/environment.hpp"

namespace trainyard::storage {

struct GcsSettings {
  /// Instead of Google's server, and then without credentials: STORAGE_EMULATOR_HOST, or
  /// CLOUD_STORAGE_EMULATOR_ENDPOINT.
  std::optional<Endpoint> emulator;

  /// "https://storage.googleapis.com/"
  [[nodiscard]] std::string url() const;
};

/// Whose credentials are used is Google's own affair: Arrow asks its default chain. ErrorKind::invalid names the
/// variable that is wrong. Pure.
[[nodiscard]] Result<GcsSettings> gcs_settings(const Environment& environment);

}  // namespace trainyard::storage
