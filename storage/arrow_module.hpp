#pragma once

#include <chrono>
#include <filesystem>
#include <memory>

#include "common/backoff.hpp"
#include "common/result.hpp"
#include "storage/environment.hpp"
#include "storage/store.hpp"
#include "storage/uri.hpp"

namespace trainyard::storage {

/// How patient a store over Arrow is; each try also tries again by itself for some seconds.
struct ArrowTuning {
  std::chrono::milliseconds connect_timeout{5'000};
  /// How long a call is tried again, and until something has succeeded.
  std::chrono::milliseconds patience{90'000};
  std::chrono::milliseconds first_patience{10'000};
  Backoff backoff{.initial = std::chrono::milliseconds{500}, .max = std::chrono::milliseconds{5'000}};
};

/// What libtrainyard_arrow.so offers. All of Arrow, and Google's and Azure's clients in it, is behind it: only who uses
/// gs:// or az:// loads it.
struct ArrowModule {
  /// A store for `uri`, of Scheme::gs or az. Nothing is contacted yet. ErrorKind::invalid names the variable of
  /// `environment` that is missing or wrong.
  Result<std::unique_ptr<Store>> (*open)(const Uri& uri, const Environment& environment, const ArrowTuning& tuning);
};

/// The module, which then stays loaded. Looks in `folder`, then in ../lib beside it. ErrorKind::invalid where it is
/// missing or does not load; the message says what to do.
[[nodiscard]] Result<const ArrowModule*> load_arrow_module(const std::filesystem::path& folder);

/// The folder of this process's program.
[[nodiscard]] std::filesystem::path program_folder();

}  // namespace trainyard::storage
