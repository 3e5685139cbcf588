#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace trainyard::control {

/// Where an informer brings what it learns, in order, on its own thread.
class ObjectSink {
 public:
  virtual ~ObjectSink() = default;
  virtual void begin_list() = 0;
  /// In a list, before its first object: nothing of before is known any more, whatever its version.
  virtual void forget() = 0;
  /// Of a list or an event.
  virtual void put(const nlohmann::json& object) = 0;
  virtual void erase(const nlohmann::json& object) = 0;
  /// All that was put since begin_list is all that there was at `resource_version`.
  virtual void end_list(std::string_view resource_version) = 0;
};

}  // namespace trainyard::control
