#include "storage/store.hpp"

#include <utility>

#include "common/parallel.hpp"
#include "storage/arrow_module.hpp"
#include "storage/command_store.hpp"
#include "storage/environment.hpp"
#include "storage/file_store.hpp"
#include "storage/s3_config.hpp"
#include "storage/s3_store.hpp"
#include "storage/uri.hpp"
#include "storage/web_store.hpp"

namespace trainyard::storage {

Result<std::unique_ptr<Store>> open_store(std::string_view text, const S3Options& s3) {
  auto uri = parse_uri(text);
  if (!uri) return tl::unexpected(uri.error());
  if (uri->scheme == Scheme::file) return std::make_unique<FileStore>(uri->path);
  if (uri->scheme == Scheme::command) return std::make_unique<CommandStore>(std::move(*uri), CommandTuning{});
  if (uri->scheme == Scheme::web) {
    WebTuning tuning;
    tuning.http.ca_bundle = first_of(process_environment(), {"AWS_CA_BUNDLE"});
    return std::make_unique<WebStore>(std::move(*uri), std::move(tuning));
  }
  if (uri->scheme == Scheme::gs || uri->scheme == Scheme::az) {
    auto store = load_arrow_module(program_folder()).and_then([&](const ArrowModule* module) {
      return module->open(*uri, process_environment(), {});
    });
    if (!store) return fail(to_string(*uri), store.error());
    return store;
  }
  return make_s3_config(*uri, s3, process_environment()).map([](S3Config config) -> std::unique_ptr<Store> {
    S3Tuning tuning;
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

Result<void> remove_all(Store& store, std::span<const std::string> keys) {
  const auto runs = runs_of(keys, store.calls_at_a_time(), [](const std::string&) { return std::uint64_t{1}; });
  return do_beside_each_other(std::span{runs}, [&](std::span<const std::string> run, const std::atomic<bool>& failed) {
    Result<void> removed;
    for (auto key = run.begin(); key != run.end() && removed && !failed; ++key) removed = store.remove(*key);
    return removed;
  });
}

}  // namespace trainyard::storage
