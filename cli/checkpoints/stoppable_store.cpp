#include "cli/checkpoints/stoppable_store.hpp"

namespace trainyard::cli {

Result<void> StoppableStore::check_not_stopped() const {
  if (is_stopped_()) return fail(ErrorKind::cancelled, "stopped by a signal");
  return {};
}

Result<void> StoppableStore::probe() {
  return check_not_stopped().and_then([&] { return store_->probe(); });
}

Result<void> StoppableStore::put(std::string_view key, storage::Pieces pieces, const storage::PutOptions& options) {
  return check_not_stopped().and_then([&] { return store_->put(key, pieces, options); });
}

Result<std::vector<std::byte>> StoppableStore::get(std::string_view key) {
  return check_not_stopped().and_then([&] { return store_->get(key); });
}

Result<void> StoppableStore::get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) {
  return check_not_stopped().and_then([&] { return store_->get_range(key, offset, into); });
}

Result<std::vector<storage::ObjectInfo>> StoppableStore::list(std::string_view prefix) {
  return check_not_stopped().and_then([&] { return store_->list(prefix); });
}

Result<void> StoppableStore::remove(std::string_view key, const std::stop_token& stop) {
  return check_not_stopped().and_then([&] { return store_->remove(key, stop); });
}

Result<void> StoppableStore::remove_unfinished(const std::function<bool(std::string_view folder)>& is_abandoned) {
  return check_not_stopped().and_then([&] { return store_->remove_unfinished(is_abandoned); });
}

}  // namespace trainyard::cli
