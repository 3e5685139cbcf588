#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "storage/store.hpp"

namespace trainyard::fakes {

/// A store that calls `fault` before each call, and fails the call with the error that `fault` returns. `fault` takes
/// the call's name ("put", "get", "get_range", "list", "remove", "remove_unfinished", "probe"), the key, and the bytes
/// to put or the buffer to read into. It may change the store behind this one.
class FaultyStore final : public storage::Store {
 public:
  using Fault =
      std::function<std::optional<Error>(std::string_view call, std::string_view key, storage::Pieces pieces)>;

  FaultyStore(std::unique_ptr<storage::Store> store, Fault fault)
      : store_{std::move(store)}, fault_{std::move(fault)} {}

  Result<void> probe() override {
    if (auto error = fault_("probe", "", {})) return tl::unexpected(*error);
    return store_->probe();
  }
  Result<void> put(std::string_view key, storage::Pieces pieces, const storage::PutOptions& options) override {
    if (auto error = fault_("put", key, pieces)) return tl::unexpected(*error);
    return store_->put(key, pieces, options);
  }
  Result<std::vector<std::byte>> get(std::string_view key) override {
    if (auto error = fault_("get", key, {})) return tl::unexpected(*error);
    return store_->get(key);
  }
  Result<void> get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) override {
    const std::span<const std::byte> piece{into};
    if (auto error = fault_("get_range", key, {&piece, 1})) return tl::unexpected(*error);
    return store_->get_range(key, offset, into);
  }
  Result<std::vector<storage::ObjectInfo>> list(std::string_view prefix) override {
    if (auto error = fault_("list", prefix, {})) return tl::unexpected(*error);
    return store_->list(prefix);
  }
  Result<void> remove(std::string_view key, const std::stop_token& stop = {}) override {
    if (auto error = fault_("remove", key, {})) return tl::unexpected(*error);
    return store_->remove(key, stop);
  }
  Result<void> remove_unfinished(const std::function<bool(std::string_view folder)>& is_abandoned) override {
    if (auto error = fault_("remove_unfinished", "", {})) return tl::unexpected(*error);
    return store_->remove_unfinished(is_abandoned);
  }
  [[nodiscard]] bool has_conditional_create() const override { return store_->has_conditional_create(); }
  [[nodiscard]] bool is_cached_on_node() const override { return store_->is_cached_on_node(); }
  [[nodiscard]] std::string trouble() const override { return trouble_of ? trouble_of() : store_->trouble(); }
  [[nodiscard]] std::string uri_of(std::string_view key) const override { return store_->uri_of(key); }

  std::function<std::string()> trouble_of;  ///< Returns trouble(), on any thread. Not set: the store's own.

 private:
  std::unique_ptr<storage::Store> store_;
  Fault fault_;
};

}  // namespace trainyard::fakes
