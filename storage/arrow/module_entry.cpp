#include <arrow/filesystem/azurefs.h>
#include <arrow/filesystem/gcsfs.h>
#include <fmt/format.h>

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "storage/arrow/arrow_store.hpp"
#include "storage/arrow/azure_settings.hpp"
#include "storage/arrow/gcs_settings.hpp"
#include "storage/arrow_module.hpp"
#include "storage/server_words.hpp"

namespace trainyard::storage {
namespace {

// Of one call inside Google's client; the store above it has more patience.
constexpr double google_retry_seconds = 5.0;

tl::unexpected<Error> refused(const std::string& words, std::string_view secret) {
  return fail(ErrorKind::invalid, fmt::format("Arrow does not take these settings: {}", server_words(words, {secret})));
}

/// `make`'s cloud. Arrow lets exceptions of the clouds' own clients pass, whose words may hold `secret`.
template <typename Make>
Result<ArrowCloud> without_exceptions(std::string_view secret, const Make& make) {
  try {
    return make();
  } catch (const std::exception& exception) {
    return refused(exception.what(), secret);
  }
}

template <typename FileSystem, typename Options>
Result<std::shared_ptr<arrow::fs::FileSystem>> make_files(const Options& options, std::string_view secret) {
  auto files = FileSystem::Make(options);
  if (!files.ok()) return refused(files.status().message(), secret);
  return std::shared_ptr<arrow::fs::FileSystem>{*std::move(files)};
}

Result<ArrowCloud> make_google(const GcsSettings& settings) {
  auto options = settings.emulator ? arrow::fs::GcsOptions::Anonymous() : arrow::fs::GcsOptions::Defaults();
  if (settings.emulator) {
    options.scheme = settings.emulator->scheme;
    options.endpoint_override = settings.emulator->authority;
  }
  options.retry_limit_seconds = google_retry_seconds;
  return make_files<arrow::fs::GcsFileSystem>(options, "").map([&](std::shared_ptr<arrow::fs::FileSystem> files) {
    return ArrowCloud{.files = std::move(files), .url = settings.url(), .secret = {}, .ca_bundle = {}};
  });
}

Result<ArrowCloud> make_azure(const AzureSettings& settings, const std::string& secret) {
  arrow::fs::AzureOptions options;
  options.account_name = settings.account;
  options.blob_storage_authority = settings.blob_authority;
  options.dfs_storage_authority = settings.dfs_authority;
  options.blob_storage_scheme = settings.scheme;
  options.dfs_storage_scheme = settings.scheme;
  // In the background a whole object would be copied and queued.
  options.background_writes = false;
  const arrow::Status configured = !settings.account_key.empty()
                                       ? options.ConfigureAccountKeyCredential(settings.account_key)
                                   : !settings.sas_token.empty() ? options.ConfigureSASCredential(settings.sas_token)
                                                                 : options.ConfigureDefaultCredential();
  if (!configured.ok()) return refused(configured.message(), secret);
  return make_files<arrow::fs::AzureFileSystem>(options, secret).map([&](std::shared_ptr<arrow::fs::FileSystem> files) {
    return ArrowCloud{.files = std::move(files), .url = settings.url(), .secret = secret, .ca_bundle = {}};
  });
}

Result<ArrowCloud> open_google(const Environment& environment) {
  return gcs_settings(environment).and_then([](const GcsSettings& settings) {
    return without_exceptions("", [&] { return make_google(settings); });
  });
}

Result<ArrowCloud> open_azure(const Environment& environment) {
  return azure_settings(environment).and_then([](const AzureSettings& settings) {
    const std::string& secret = settings.account_key.empty() ? settings.sas_token : settings.account_key;
    return without_exceptions(secret, [&] { return make_azure(settings, secret); });
  });
}

Result<std::unique_ptr<Store>> open_cloud(const Uri& uri, const Environment& environment, const ArrowTuning& tuning) {
  auto cloud = uri.scheme == Scheme::gs ? open_google(environment) : open_azure(environment);
  if (!cloud) return tl::unexpected(cloud.error());
  cloud->ca_bundle = first_of(environment, {"SSL_CERT_FILE"});  // Where Arrow's OpenSSL looks.
  return std::make_unique<ArrowStore>(uri, *std::move(cloud), tuning);
}

}  // namespace
}  // namespace trainyard::storage

extern "C" __attribute__((visibility("default"))) const trainyard::storage::ArrowModule* trainyard_arrow_module() {
  static constexpr trainyard::storage::ArrowModule module{.open = trainyard::storage::open_cloud};
  return &module;
}
