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

/// Makes a process on this machine from a container of a pod: pure functions over the pod's JSON.
namespace trainyard::local {

using Variables = std::map<std::string, std::string>;

/// The things that this machine provides to a container.
struct ContainerContext {
  Variables inherited;          ///< Environment in place of the image's: PATH, HOME and so on.
  std::string worker_program;   ///< The program for a container of a `training` job that names no command.
                                ///< Empty: such a container is refused.
  std::string termination_log;  ///< File for the termination message.
  std::optional<std::vector<std::string>>
      visible_gpus;     ///< The value of CUDA_VISIBLE_DEVICES. Not set: the variable is not changed.
  Variables overrides;  ///< They replace the container's own variables; $(NAME) in them refers to those.
  Variables volumes;    ///< The folder of each PersistentVolumeClaim that has one.
  /// The Secret `name`. ErrorKind::not_found: there is none.
  std::function<Result<Variables>(const std::string& name)> read_secret;
};

/// The machine on which a rank of `trainyard run` runs.
struct RankSeat {
  std::string host;                   ///< As the user named it, perhaps with "user@" before it.
  std::string address = "127.0.0.1";  ///< Name or address by which the other ranks reach this one.
  bool is_remote = false;             ///< Reached by ssh.
  Variables variables;                ///< They replace the pod's own (ContainerContext::overrides).
  bool operator==(const RankSeat&) const = default;
};

/// The process for `container`, without its log files. Environment, command and arguments are resolved as by a kubelet:
/// fieldRef, resourceFieldRef of the CPU request, secretKeyRef, envFrom, and $(VAR) of variables that were declared
/// before. ErrorKind::invalid names what this machine cannot provide, not_found a missing Secret, key or volume claim.
[[nodiscard]] Result<ProcessSpec> resolve_container(const nlohmann::json& pod, const nlohmann::json& container,
                                                    const ContainerContext& context);

/// `text` with each $(NAME) of `variables` replaced; $$(NAME) becomes $(NAME), unknown names stay as they are.
[[nodiscard]] std::string expand_variables(std::string_view text, const Variables& variables);

/// The number of nvidia.com/gpu devices that `container` asks for.
[[nodiscard]] std::int64_t gpus_of(const nlohmann::json& container);

}  // namespace trainyard::local
