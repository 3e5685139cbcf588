#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "local/process_group.hpp"

/// From a container of a pod to the process that stands for it on this machine: pure functions over the pod's JSON.
namespace trainyard::local {

using Variables = std::map<std::string, std::string>;

/// What this machine gives to a container.
struct ContainerContext {
  Variables inherited;          ///< The image's environment is this machine's: PATH, HOME and so on.
  std::string worker_program;   ///< What a container of a `training` job runs that names no command. Empty: such a one
                                ///< is refused.
  std::string termination_log;  ///< File for the termination message.
  std::optional<std::vector<std::string>>
      visible_gpus;     ///< What CUDA_VISIBLE_DEVICES names. Not set: nothing is said about GPUs.
  Variables overrides;  ///< Set over the container's own, in which $(NAME) finds the container's.
  Variables volumes;    ///< Folder of each PersistentVolumeClaim that is mapped.
  /// The Secret of that name in the pod's namespace; not_found when there is none.
  std::function<Result<Variables>(const std::string& name)> read_secret;
};

/// The process of `container`, but for its log files. Environment, command and arguments are worked out as a kubelet
/// does: fieldRef, resourceFieldRef of the CPU request, secretKeyRef, envFrom, $(VAR) of what was declared before.
/// ErrorKind::invalid for what cannot be had on this machine, not_found for a missing Secret or key; the message names
/// it.
[[nodiscard]] Result<ProcessSpec> resolve_container(const nlohmann::json& pod, const nlohmann::json& container,
                                                    const ContainerContext& context);

/// `text` with each $(NAME) of `variables` replaced; $$(NAME) becomes $(NAME), unknown names stay as they are.
[[nodiscard]] std::string expand_variables(std::string_view text, const Variables& variables);

/// Devices of the kind nvidia.com/gpu that the pod's container asks for.
[[nodiscard]] std::int64_t gpus_of(const nlohmann::json& container);

}  // namespace trainyard::local
