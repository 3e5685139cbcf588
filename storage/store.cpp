#include "storage/store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/check.hpp"
#include "common/parallel.hpp"
#include "common/text.hpp"
#include "common/try.hpp"
#include "storage/azure_store.hpp"
#include "storage/command_store.hpp"
#include "storage/environment.hpp"
#include "storage/file_store.hpp"
#include "storage/gcs_store.hpp"
#include "storage/s3_config.hpp"
#include "storage/s3_store.hpp"
#include "storage/transfer_plan.hpp"
#include "storage/uri.hpp"
#include "storage/web_store.hpp"

namespace trainyard::storage {
namespace {

// S3 allows 1024 bytes for the prefix and the key together.
constexpr std::size_t key_bytes_max = 900;

Result<std::unique_ptr<Store>> open_gcs(const Uri& uri, const TransferChoice& transfer) {
  auto settings = make_gcs_settings(uri, process_environment());
  if (!settings) return fail(to_string(uri), settings.error());
  GcsTuning tuning{.transfer = transfer};
  tuning.http.ca_bundle = settings->ca_bundle;
  return std::make_unique<GcsStore>(std::move(*settings), std::move(tuning));
}

Result<std::unique_ptr<Store>> open_azure(const Uri& uri, const TransferChoice& transfer) {
  auto place = make_azure_place(uri, process_environment());
  if (!place) return fail(to_string(uri), place.error());
  AzureTuning tuning{.transfer = transfer};
  tuning.http.ca_bundle = place->ca_bundle;
  return std::make_unique<AzureStore>(std::move(*place), std::move(tuning));
}

}  // namespace

Result<void> check_key(std::string_view key) {
  const auto refuse = [&](std::string_view why) {
    return fail(ErrorKind::invalid, fmt::format("'{}' is not a key: {}", keep_beginning(key, 100), why));
  };
  if (key.empty()) return refuse("it is empty");
  if (key.size() > key_bytes_max) return refuse(fmt::format("it is longer than {} bytes", key_bytes_max));
  if (std::any_of(key.begin(), key.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
    return fail(ErrorKind::invalid, "a key holds control characters");
  }
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t end = std::min(key.find('/', begin), key.size());
    const std::string_view part = key.substr(begin, end - begin);
    if (part.empty()) return refuse("it has an empty part between its slashes");
    if (part.starts_with('.')) return refuse("one of its parts begins with a dot");
    begin = end + 1;
  }
  return {};
}

Result<std::unique_ptr<Store>> open_store(std::string_view text, const S3Options& s3) {
  auto uri = TRY(parse_uri(text));
  if (uri.scheme == Scheme::file) {
    return file_modes(process_environment()).map([&](const posix::Modes& modes) -> std::unique_ptr<Store> {
      return std::make_unique<FileStore>(uri.path, FileStoreOptions{.modes = modes});
    });
  }
  if (uri.scheme == Scheme::command) return std::make_unique<CommandStore>(std::move(uri), CommandTuning{});
  const auto transfer = read_transfer_choice(process_environment());
  if (!transfer) return fail(to_string(uri), transfer.error());
  if (uri.scheme == Scheme::web) {
    WebTuning tuning{.transfer = *transfer};
    tuning.http.ca_bundle = first_of(process_environment(), {"AWS_CA_BUNDLE"});
    return std::make_unique<WebStore>(std::move(uri), std::move(tuning));
  }
  if (uri.scheme == Scheme::gs) return open_gcs(uri, *transfer);
  if (uri.scheme == Scheme::az) return open_azure(uri, *transfer);
  check(uri.scheme == Scheme::s3, "open_store: each scheme has a store");
  return make_s3_config(uri, s3, process_environment()).map([&](S3Config config) -> std::unique_ptr<Store> {
    S3Tuning tuning{.transfer = *transfer};
    tuning.http.ca_bundle = config.ca_bundle;
    return std::make_unique<S3Store>(std::move(config), std::move(tuning));
  });
}

Result<void> put_text(Store& store, std::string_view key, std::string_view text, const PutOptions& options) {
  const std::span<const std::byte> piece = std::as_bytes(std::span{text});
  return store.put(key, {&piece, 1}, options);
}

Result<std::string> get_text(Store& store, std::string_view key) {
  return store.get(key).map([](const std::vector<std::byte>& bytes) {
    return std::string{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  });
}

Result<void> Store::remove_all(std::span<const std::string> keys, std::stop_token stop) {
  const auto runs = split_by_weight(keys, concurrency(), [](const std::string&) { return std::uint64_t{1}; });
  return parallel_for(
      std::span{runs}, [&](std::span<const std::string> run, const std::atomic<bool>& failed) -> Result<void> {
        for (const std::string& key : run) {
          if (failed) return {};
          if (stop.stop_requested())
            return fail(ErrorKind::cancelled, fmt::format("removing {}: the removal was given up", uri_of(key)));
          TRY(remove(key, stop));
        }
        return {};
      });
}

}  // namespace trainyard::storage
