#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/memory_store.hpp"

namespace trainyard::fakes {

/// Objects whose list is some writes old. Any thread may call.
struct LateObjects {
  explicit LateObjects(std::size_t lag) : lag_writes{lag} {}

  const std::size_t lag_writes;
  MemoryObjects objects;
  std::mutex mutex;  // guards lists
  std::vector<std::vector<storage::ObjectInfo>> lists = std::vector<std::vector<storage::ObjectInfo>>(1);  // By writes.
};

/// A store over them: what is asked for by name is as it is now.
class LateListingStore final : public storage::Store {
 public:
  explicit LateListingStore(LateObjects& late) : late_{late}, store_{late.objects} {}

  Result<void> probe() override { return store_.probe(); }
  Result<void> put(std::string_view key, storage::Pieces pieces, const storage::PutOptions& options) override {
    const std::scoped_lock lock{late_.mutex};
    return store_.put(key, pieces, options).map([&] { note(); });
  }
  Result<std::vector<std::byte>> get(std::string_view key) override { return store_.get(key); }
  Result<void> get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) override {
    return store_.get_range(key, offset, into);
  }
  Result<std::vector<storage::ObjectInfo>> list(std::string_view prefix) override {
    const std::scoped_lock lock{late_.mutex};
    const std::size_t now = late_.lists.size() - 1;
    std::vector<storage::ObjectInfo> found = late_.lists[now - std::min(now, late_.lag_writes)];
    std::erase_if(found, [&](const storage::ObjectInfo& object) { return !object.key.starts_with(prefix); });
    return found;
  }
  Result<void> remove(std::string_view key, const std::stop_token& stop = {}) override {
    const std::scoped_lock lock{late_.mutex};
    return store_.remove(key, stop).map([&] { note(); });
  }
  Result<void> remove_unfinished(const std::function<bool(std::string_view folder)>& is_abandoned) override {
    return store_.remove_unfinished(is_abandoned);
  }
  [[nodiscard]] bool has_conditional_create() const override { return store_.has_conditional_create(); }
  [[nodiscard]] std::string uri_of(std::string_view key) const override { return store_.uri_of(key); }

 private:
  // Call with the mutex locked.
  void note() { late_.lists.push_back(store_.list("").value()); }

  LateObjects& late_;
  MemoryStore store_;
};

}  // namespace trainyard::fakes
