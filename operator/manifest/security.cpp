#include "operator/manifest/security.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace trainyard::manifest {
namespace {

using nlohmann::json;

/// The user that distroless images call "nonroot". An image that would run as root runs as this user instead of being
/// refused.
constexpr int nonroot_id = 65532;

constexpr const char* home = "/tmp";
constexpr const char* user_name = "trainyard";

json context_of(const json& part) {
  return part.value("securityContext", json::object());
}

bool wants_root(const json& security_context) {
  return security_context.value("runAsUser", json{}) == 0 || security_context.value("runAsNonRoot", json{}) == false;
}

template <typename Visit>
void for_each_container(json& pod_spec, const Visit& visit) {
  for (const char* list : {"containers", "initContainers"}) {
    if (!pod_spec.contains(list)) continue;
    for (json& container : pod_spec.at(list)) visit(container);
  }
}

/// Adds the fields that `object` lacks.
void add_fields(json& object, const json& fields) {
  for (const auto& [field, value] : fields.items()) {
    if (!object.contains(field)) object[field] = value;
  }
}

/// The user of a container whose template names none.
json default_user(UserIds user_ids) {
  json user{{"runAsNonRoot", true}};
  if (user_ids != UserIds::cluster) user.update({{"runAsUser", nonroot_id}, {"runAsGroup", nonroot_id}});
  return user;
}

json default_pod_context(UserIds user_ids) {
  json context{{"seccompProfile", {{"type", "RuntimeDefault"}}}};
  // Volumes belong to this group, so that the pod can write checkpoints to a volume claim.
  if (user_ids != UserIds::cluster) {
    context.update({{"fsGroup", nonroot_id}, {"fsGroupChangePolicy", "OnRootMismatch"}});
  }
  return context;
}

/// Sets HOME and USER, because the image does not know the user. The runtime would give it the home folder /, which it
/// may not write to, and no name, which programs such as PyTorch's compiler need for their caches.
void add_home(json& container) {
  json& environment = container["env"];
  for (const auto& [name, value] : {std::pair{"HOME", home}, std::pair{"USER", user_name}}) {
    const bool is_set = std::ranges::any_of(
        environment, [name = name](const json& variable) { return variable.value("name", "") == name; });
    if (!is_set) environment.push_back({{"name", name}, {"value", value}});
  }
}

}  // namespace

void add_security_defaults(json& pod_spec, UserIds user_ids) {
  if (!pod_spec.contains("automountServiceAccountToken") && !pod_spec.contains("serviceAccountName")) {
    pod_spec["automountServiceAccountToken"] = false;
  }
  const bool is_users_own = pod_spec.contains("securityContext");
  // A template that asks for root needs root's capabilities too.
  if (is_users_own && wants_root(context_of(pod_spec))) return;
  bool has_root = false;
  for_each_container(pod_spec, [&](const json& container) { has_root |= wants_root(context_of(container)); });
  if (!is_users_own) {
    pod_spec["securityContext"] = default_pod_context(user_ids);
    // The pod's fields would also hold for a container that runs as root. If there is one, each other container gets
    // the fields itself.
    if (!has_root) add_fields(pod_spec["securityContext"], default_user(user_ids));
  }
  for_each_container(pod_spec, [&](json& container) {
    const bool is_root = wants_root(context_of(container));
    const bool has_user = is_users_own || is_root || context_of(container).contains("runAsUser");
    if (!has_user && user_ids != UserIds::process) add_home(container);
    if (!container.contains("securityContext")) {
      container["securityContext"] = {{"allowPrivilegeEscalation", false}, {"capabilities", {{"drop", {"ALL"}}}}};
    }
    if (has_root && !is_root && !is_users_own) add_fields(container["securityContext"], default_user(user_ids));
  });
}

}  // namespace trainyard::manifest
