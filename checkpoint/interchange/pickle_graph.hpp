#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace trainyard::checkpoint {

/// An object as a pickle describes it. A call that Python would make stays a description.
struct PickledObject {
  enum class Kind { none, boolean, integer, real, text, tuple, list, dict, global, call, persistent };

  Kind kind = Kind::none;
  std::int64_t integer = 0;  ///< Also for a boolean.
  std::string text;          ///< For a text; for a global "module.name".
  /// The items of a tuple or a list; a dict's keys and values in turn; the id of a persistent object; the items that
  /// are set on the result of a call.
  std::vector<const PickledObject*> items;
  const PickledObject* function = nullptr;   ///< For a call: the global.
  const PickledObject* arguments = nullptr;  ///< For a call: the tuple.
  bool has_state = false;  ///< For a call: the pickle also sets attributes of the result, which are not kept here.
};

/// The objects that a pickle (protocols 2 to 5) describes. Reading calls nothing and imports nothing. Objects may refer
/// to each other in circles.
class PickleGraph {
 public:
  /// True when the pickle may contain the global "module.name".
  using Allows = std::function<bool(std::string_view global)>;

  /// ErrorKind::invalid for a global that is not allowed, or an opcode that torch.save does not write; corrupt for a
  /// pickle that is cut off or contradicts itself. Memory is bounded by the pickle's length, and by some hundred MiB.
  [[nodiscard]] static Result<PickleGraph> read(std::string_view pickle, const Allows& allows);

  [[nodiscard]] const PickledObject& root() const { return *root_; }

 private:
  PickleGraph(std::deque<PickledObject> objects, const PickledObject* root)
      : objects_{std::move(objects)}, root_{root} {}

  std::deque<PickledObject> objects_;  // A deque keeps their addresses.
  const PickledObject* root_;
};

}  // namespace trainyard::checkpoint
