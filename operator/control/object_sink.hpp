#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace trainyard::control {

/// Receives the lists and events of an informer, in order, on the informer's thread.
class ObjectSink {
 public:
  virtual ~ObjectSink() = default;
  virtual void begin_list() = 0;
  /// Called in a list before its first object: drops all objects known before, whatever their versions.
  virtual void forget() = 0;
  /// Stores an object of a list or an event.
  virtual void put(const nlohmann::json& object) = 0;
  virtual void erase(const nlohmann::json& object) = 0;
  /// Ends a list: the objects put since begin_list() are all that existed at `resource_version`.
  virtual void end_list(std::string_view resource_version) = 0;
};

}  // namespace trainyard::control
