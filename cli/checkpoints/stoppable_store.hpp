#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "storage/store.hpp"

namespace trainyard::cli {

/// A store whose calls fail with ErrorKind::cancelled once `is_stopped` is true. The caller then ends and cleans up as
/// after any other failure. A call in progress is not interrupted.
class StoppableStore final : public storage::Store {
 public:
  StoppableStore(std::unique_ptr<storage::Store> store, std::function<bool()> is_stopped)
      : store_{std::move(store)}, is_stopped_{std::move(is_stopped)} {}

  [[nodiscard]] Result<void> probe() override;
  [[nodiscard]] Result<void> put(std::string_view key, storage::Pieces pieces,
                                 const storage::PutOptions& options) override;
  [[nodiscard]] Result<std::vector<std::byte>> get(std::string_view key) override;
  [[nodiscard]] Result<void> get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) override;
  [[nodiscard]] Result<std::vector<storage::ObjectInfo>> list(std::string_view prefix) override;
  [[nodiscard]] Result<void> remove(std::string_view key, const std::stop_token& stop = {}) override;
  [[nodiscard]] Result<void> remove_unfinished(
      const std::function<bool(std::string_view folder)>& is_abandoned) override;
  [[nodiscard]] bool has_conditional_create() const override { return store_->has_conditional_create(); }
  [[nodiscard]] bool is_cached_on_node() const override { return store_->is_cached_on_node(); }
  [[nodiscard]] std::size_t concurrency() const override { return store_->concurrency(); }
  [[nodiscard]] std::string uri_of(std::string_view key) const override { return store_->uri_of(key); }

 private:
  [[nodiscard]] Result<void> check_not_stopped() const;

  std::unique_ptr<storage::Store> store_;
  std::function<bool()> is_stopped_;
};

}  // namespace trainyard::cli
