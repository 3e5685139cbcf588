#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace trainyard::checkpoint {

/// An object as a pickle describes it. What Python would build by calling something stays a description here.
struct PickledObject {
  enum class Kind { none, boolean, integer, real, text, tuple, list, dict, global, call, persistent };

  Kind kind = Kind::none;
  std::int64_t integer = 0;  ///< A boolean's too.
  std::string text;          ///< A text's; a global's "module.name".
  /// A tuple's and a list's; a dict's keys and values by turns; a persistent object's one, its id.
  std::vector<const PickledObject*> items;
  const PickledObject* function = nullptr;   ///< Of a call: the global.
  const PickledObject* arguments = nullptr;  ///< Of a call: the tuple. What is set on its result is in `items`.
  bool has_state = false;                    ///< Of a call: its result is given attributes besides, which are left out.
};

/// What a pickle (protocols 2 to 5) describes. Reading it calls nothing and imports nothing: there is nothing here that
/// could be called. Objects may hold each other in circles.
class PickleGraph {
 public:
  /// Whether a global, "module.name", may stand in the pickle at all.
  using Allows = std::function<bool(std::string_view global)>;

  /// ErrorKind::invalid for a global that is not allowed and for what torch.save does not write, corrupt for a pickle
  /// that is cut off or contradicts itself. Memory is bounded by the pickle's length, and by some hundred MiB.
  [[nodiscard]] static Result<PickleGraph> read(std::string_view pickle, const Allows& allows);

  [[nodiscard]] const PickledObject& root() const { return *root_; }

 private:
  PickleGraph(std::deque<PickledObject> objects, const PickledObject* root)
      : objects_(std::move(objects)), root_(root) {}

  std::deque<PickledObject> objects_;  // Each stays where it is.
  const PickledObject* root_;
};

}  // namespace trainyard::checkpoint
