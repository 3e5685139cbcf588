#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "storage/store.hpp"

namespace trainyard::fakes {

/// Objects in memory, which outlive the stores over them. Any thread may call.
class MemoryObjects {
 public:
  std::mutex mutex;  // guards all below
  std::map<std::string, std::vector<std::byte>, std::less<>> objects;
  std::set<std::string, std::less<>> unlisted;  ///< Keys that lists do not show.
  bool is_conditional = true;                   ///< The default of the stores' `is_conditional`.
};

/// A store over `objects`, which several stores may share as several processes share a bucket.
class MemoryStore final : public storage::Store {
 public:
  explicit MemoryStore(MemoryObjects& objects) : MemoryStore(objects, objects.is_conditional) {}
  /// `is_conditional` is true for a store with conditional create. URIs begin with `scheme`.
  MemoryStore(MemoryObjects& objects, bool is_conditional, std::string scheme = "memory://")
      : objects_{objects}, is_conditional_{is_conditional}, scheme_{std::move(scheme)} {}

  Result<void> probe() override { return {}; }

  Result<void> put(std::string_view key, storage::Pieces pieces, const storage::PutOptions& options) override {
    if (auto good = storage::check_key(key); !good) return good;
    std::vector<std::byte> content;
    for (const auto& piece : pieces) content.insert(content.end(), piece.begin(), piece.end());
    const std::scoped_lock lock{objects_.mutex};
    if (options.if_absent && objects_.objects.contains(key)) {
      return fail(ErrorKind::already_exists, fmt::format("{} is already there", uri_of(key)));
    }
    objects_.objects.insert_or_assign(std::string{key}, std::move(content));
    return {};
  }

  Result<std::vector<std::byte>> get(std::string_view key) override {
    const std::scoped_lock lock{objects_.mutex};
    const auto found = objects_.objects.find(key);
    if (found == objects_.objects.end()) return fail(ErrorKind::not_found, fmt::format("{} is not there", uri_of(key)));
    return found->second;
  }

  Result<void> get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) override {
    const std::scoped_lock lock{objects_.mutex};
    const auto found = objects_.objects.find(key);
    if (found == objects_.objects.end()) return fail(ErrorKind::not_found, fmt::format("{} is not there", uri_of(key)));
    const std::vector<std::byte>& content = found->second;
    if (offset + into.size() > content.size())
      return fail(ErrorKind::corrupt, fmt::format("{} ends too early", uri_of(key)));
    std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(offset), into.size(), into.begin());
    return {};
  }

  Result<std::vector<storage::ObjectInfo>> list(std::string_view prefix) override {
    const std::scoped_lock lock{objects_.mutex};
    std::vector<storage::ObjectInfo> found;
    for (const auto& [key, content] : objects_.objects) {
      if (key.starts_with(prefix) && !objects_.unlisted.contains(key))
        found.push_back({.key = key, .bytes = content.size()});
    }
    return found;
  }

  Result<void> remove(std::string_view key, const std::stop_token& = {}) override {
    const std::scoped_lock lock{objects_.mutex};
    if (const auto found = objects_.objects.find(key); found != objects_.objects.end()) objects_.objects.erase(found);
    return {};
  }

  Result<void> remove_unfinished(const std::function<bool(std::string_view folder)>&) override { return {}; }

  [[nodiscard]] bool has_conditional_create() const override { return is_conditional_; }
  [[nodiscard]] std::string uri_of(std::string_view key) const override { return fmt::format("{}{}", scheme_, key); }

 private:
  MemoryObjects& objects_;
  const bool is_conditional_;
  const std::string scheme_;
};

}  // namespace trainyard::fakes
