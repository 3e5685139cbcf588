#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "storage/store.hpp"

/// A store as a model checker sees it: objects, calls that change them, and replies. All are values.
namespace trainyard::checkpoint::exploration {

using Bytes = std::vector<std::byte>;

struct Object {
  Bytes content;
  std::uint64_t hash = 0;  ///< The hash of the content.
  std::size_t author = 0;  ///< The writer that put it.
};

/// The content of a store. Copies share the objects, which never change.
class Objects {
 public:
  void put(const std::string& key, Bytes content, std::size_t author);
  void remove(const std::string& key);
  [[nodiscard]] const Object* find(const std::string& key) const;
  [[nodiscard]] const std::map<std::string, std::shared_ptr<const Object>>& all() const { return objects_; }
  /// Equal contents have equal hashes.
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

 private:
  std::map<std::string, std::shared_ptr<const Object>> objects_;
  std::uint64_t hash_ = 0;
};

enum class CallKind { put, get, get_range, list, remove, remove_unfinished };

/// One call of a writer to the store.
struct Call {
  CallKind kind = CallKind::get;
  std::string key;            ///< The object's key, or the prefix to list.
  Bytes content;              ///< put
  bool is_if_absent = false;  ///< put
  std::uint64_t offset = 0;   ///< get_range
  std::uint64_t size = 0;     ///< get_range
  [[nodiscard]] bool changes_objects() const { return kind == CallKind::put || kind == CallKind::remove; }
  /// "put generations/1.json if absent"
  [[nodiscard]] std::string text() const;
};

struct Reply {
  std::optional<Error> error;
  Bytes content;                             ///< get, get_range
  std::vector<storage::ObjectInfo> listing;  ///< list
  [[nodiscard]] std::uint64_t hash() const;
};

/// Carries out `call` by writer `author`, and returns what a store without a fault replies.
[[nodiscard]] Reply apply(const Call& call, std::size_t author, Objects& objects);

/// Order matters: combine(a, b) differs from combine(b, a).
[[nodiscard]] std::uint64_t combine(std::uint64_t a, std::uint64_t b);
[[nodiscard]] std::uint64_t hash_of(const void* bytes, std::size_t count);

}  // namespace trainyard::checkpoint::exploration
