#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "common/result.hpp"
#include "operator/kube/api.hpp"

namespace trainyard::integration {

/// The kubelet of a cluster without nodes: says of every pod of a namespace that it runs, until a test makes it end. It
/// has a thread of its own; any thread may call.
class HandKubelet {
 public:
  /// `api` must outlive this object.
  HandKubelet(kube::Api& api, std::string name_space);

  /// Ends the pod's first container with `exit_code`, and the pod with it.
  [[nodiscard]] Result<void> end(const std::string& pod, int exit_code, const std::string& message = {});
  /// The pods in the order of the list; empty when the server does not answer.
  [[nodiscard]] std::vector<nlohmann::json> pods() const;

 private:
  void run(const std::stop_token& stop);
  Result<void> write_status(nlohmann::json pod, nlohmann::json status);

  kube::Api& api_;
  const std::string name_space_;
  std::jthread thread_;
};

}  // namespace trainyard::integration
