#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "api/metadata.hpp"
#include "common/logging.hpp"
#include "common/result.hpp"
#include "operator/control/informer.hpp"
#include "operator/control/object_cache.hpp"

namespace trainyard::control {

/// Keeps a projection T of each object in a cache. After each addition, change or removal in the cache it calls
/// `on_change`. For an object that cannot be read it logs a warning and calls `on_unreadable`. The cache then keeps the
/// last readable version: one bad object must neither stop the others nor be taken for deleted.
template <typename T>
class CacheSink final : public ObjectSink {
 public:
  using Parse = std::function<Result<T>(const nlohmann::json&)>;
  using OnChange = std::function<void(const T&)>;
  using OnUnreadable = std::function<void(const api::Metadata&, const Error&)>;

  /// `cache` outlives the sink. `name_space` is the namespace that the informer lists; empty: all.
  CacheSink(ObjectCache<T>& cache, std::string name_space, Parse parse, OnChange on_change,
            OnUnreadable on_unreadable = {})
      : cache_{cache},
        name_space_{std::move(name_space)},
        parse_{std::move(parse)},
        on_change_{std::move(on_change)},
        on_unreadable_{std::move(on_unreadable)} {}

  void begin_list() override {
    is_listing_ = true;
    listed_.clear();
  }

  void forget() override {
    for (const T& erased : cache_.erase_unlisted(name_space_, {}, version_max)) on_change_(erased);
  }

  void put(const nlohmann::json& object) override {
    auto parsed = parse_(object);
    if (!parsed) return skip(object, parsed.error());
    if (is_listing_) listed_.insert({parsed->metadata.name_space, parsed->metadata.name});
    cache_.put_listed(*parsed);
    on_change_(*parsed);
  }

  void erase(const nlohmann::json& object) override {
    const auto metadata = api::parse_metadata(object);
    if (!metadata) {
      logging::warn("object skipped", {{"error", metadata.error().message}});
      return;
    }
    const ObjectKey key{metadata->name_space, metadata->name};
    const auto parsed = parse_(object);
    const auto last = parsed ? std::optional<T>{*parsed} : cache_.find(key);
    cache_.erase(key, metadata->uid);
    if (last) on_change_(*last);
  }

  void end_list(std::string_view resource_version) override {
    for (const T& erased : cache_.erase_unlisted(name_space_, listed_, resource_version)) on_change_(erased);
    is_listing_ = false;
    listed_.clear();
  }

 private:
  static constexpr std::string_view version_max = "18446744073709551615";

  void skip(const nlohmann::json& object, const Error& error) {
    const auto metadata = api::parse_metadata(object);
    logging::warn("object skipped", {{"name", metadata ? metadata->name : ""}, {"error", error.message}});
    if (!metadata) return;
    if (is_listing_) listed_.insert({metadata->name_space, metadata->name});
    if (on_unreadable_) on_unreadable_(*metadata, error);
  }

  ObjectCache<T>& cache_;
  const std::string name_space_;
  const Parse parse_;
  const OnChange on_change_;
  const OnUnreadable on_unreadable_;
  bool is_listing_ = false;
  std::set<ObjectKey> listed_;
};

}  // namespace trainyard::control
