#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/clock.hpp"
#include "local/memory_api.hpp"

namespace trainyard::fakes {

/// Scheduler and kubelet of a cluster in memory: binds pods, runs their containers by saying so, and lets go of deleted
/// ones. Nothing happens but in step() and when a test makes a container end. Not thread-safe.
class FakeKubelet {
 public:
  using PodFilter = std::function<bool(const nlohmann::json& pod)>;

  FakeKubelet(local::MemoryApi& api, const Clock& clock) : api_{api}, clock_{clock} {}

  /// Pods that do not start: unschedulable with this message. None by default.
  void hold(PodFilter filter, std::string message);
  void let_go();
  /// Pods that run on until the end of their grace period when they are deleted.
  void set_stubborn(PodFilter filter);

  /// Every pod goes on by one stage: bound and created, then running; deleted ones end. Whether any did.
  bool step();

  /// The named pod's worker ends; 0 is success.
  void end(const std::string& name_space, const std::string& name, int exit_code, const std::string& message = {});
  /// The pod goes without a trace, as with its node.
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
  // While the API is at this version there is nothing to do, however late it gets. Copying all pods to find that out
  // is most of a simulation's time.
  std::string idle_version_;
};

}  // namespace trainyard::fakes
