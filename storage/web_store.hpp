#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "storage/http_client.hpp"
#include "storage/store.hpp"
#include "storage/transfer_plan.hpp"
#include "storage/uri.hpp"

namespace trainyard::storage {

/// How a WebStore divides its work into requests.
struct WebTuning {
  HttpTuning http;
  TransferChoice transfer;
};

/// Files below a folder of a web server, for reading only: put() and remove() are invalid. A web server does not list
/// its files, so list() and probe() read the file `index.txt` in the folder. It holds one key a line; empty lines and
/// lines that begin with '#' are skipped. The server must support Range and send each file's length.
class WebStore final : public Store {
 public:
  /// `uri`: of Scheme::web.
  WebStore(Uri uri, WebTuning tuning);

  [[nodiscard]] Result<void> probe() override;
  [[nodiscard]] Result<void> put(std::string_view key, Pieces pieces, const PutOptions& options) override;
  [[nodiscard]] Result<std::vector<std::byte>> get(std::string_view key) override;
  [[nodiscard]] Result<void> get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) override;
  /// not_found when there is no index, or it names a file that is not there.
  [[nodiscard]] Result<std::vector<ObjectInfo>> list(std::string_view prefix) override;
  [[nodiscard]] Result<void> remove(std::string_view key, const std::stop_token& stop = {}) override;
  [[nodiscard]] Result<void> remove_unfinished(const std::function<bool(std::string_view folder)>&) override {
    return {};
  }
  [[nodiscard]] bool has_conditional_create() const override { return false; }
  [[nodiscard]] std::string uri_of(std::string_view key) const override;

 private:
  [[nodiscard]] Result<std::vector<ObjectInfo>> read_index(std::string_view prefix);
  [[nodiscard]] HttpRequest request(std::string method, std::string_view key) const;

  const Uri uri_;
  const WebTuning tuning_;
  HttpClient http_;
};

/// The keys in the text of an index, sorted and without duplicates; their sizes are 0. invalid for a line that is no
/// key. Pure.
[[nodiscard]] Result<std::vector<ObjectInfo>> parse_index(std::string_view text);

}  // namespace trainyard::storage
