#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/clock.hpp"
#include "local/memory_api.hpp"

namespace trainyard::fakes {

/// Scheduler and kubelet of a cluster in memory: binds pods, sets their containers to running in the status, and
/// removes deleted pods. It acts only in step() and when a test ends a container. Not thread-safe.
class FakeKubelet {
 public:
  using PodFilter = std::function<bool(const nlohmann::json& pod)>;

  FakeKubelet(local::MemoryApi& api, const Clock& clock) : api_{api}, clock_{clock} {}

  /// Pods that do not start: unschedulable with this message. None by default.
  void hold(PodFilter filter, std::string message);
  void let_go();
  /// Pods that run until the end of their grace period when they are deleted.
  void set_stubborn(PodFilter filter);

  /// Takes every pod one stage further: bound and created, then running; deleted pods end. True when any changed.
  bool step();

  /// Ends the named pod's worker; 0 is success.
  void end(const std::string& name_space, const std::string& name, int exit_code, const std::string& message = {});
  /// Removes the pod without a trace, as a lost node does.
  void vanish(const std::string& name_space, const std::string& name);

  [[nodiscard]] std::vector<nlohmann::json> pods() const;

 private:
  bool start(const nlohmann::json& pod);
  bool stop(const nlohmann::json& pod);
  void write_status(nlohmann::json pod, const nlohmann::json& status);

  local::MemoryApi& api_;
  const Clock& clock_;
  PodFilter held_;
  std::string hold_message_;
  PodFilter stubborn_;
  // While the API is at this version there is nothing to do at any time. Copying all pods to find that out would be
  // most of a simulation's time.
  std::string idle_version_;
};

}  // namespace trainyard::fakes
