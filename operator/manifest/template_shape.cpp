#include "operator/manifest/template_shape.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

namespace trainyard::manifest {
namespace {

using nlohmann::json;

enum class Shape { object, list, text, integer };

struct Field {
  std::string_view path;  ///< `*` means each item of a list.
  Shape shape;
};

constexpr std::array fields{
    Field{"metadata", Shape::object},
    Field{"metadata.labels", Shape::object},
    Field{"metadata.annotations", Shape::object},
    Field{"spec", Shape::object},
    Field{"spec.terminationGracePeriodSeconds", Shape::integer},
    Field{"spec.securityContext", Shape::object},
    Field{"spec.imagePullSecrets", Shape::list},
    Field{"spec.volumes", Shape::list},
    Field{"spec.tolerations", Shape::list},
    Field{"spec.tolerations.*", Shape::object},
    Field{"spec.tolerations.*.key", Shape::text},
    Field{"spec.tolerations.*.operator", Shape::text},
    Field{"spec.affinity", Shape::object},
    Field{"spec.affinity.nodeAffinity", Shape::object},
    Field{"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution", Shape::object},
    Field{"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms", Shape::list},
    Field{"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.*",
          Shape::object},
    Field{"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.*."
          "matchExpressions",
          Shape::list},
    Field{"spec.initContainers", Shape::list},
    Field{"spec.initContainers.*", Shape::object},
    Field{"spec.initContainers.*.env", Shape::list},
    Field{"spec.initContainers.*.env.*", Shape::object},
    Field{"spec.initContainers.*.env.*.name", Shape::text},
    Field{"spec.initContainers.*.securityContext", Shape::object},
    Field{"spec.containers", Shape::list},
    Field{"spec.containers.*", Shape::object},
    Field{"spec.containers.*.name", Shape::text},
    Field{"spec.containers.*.image", Shape::text},
    Field{"spec.containers.*.env", Shape::list},
    Field{"spec.containers.*.env.*", Shape::object},
    Field{"spec.containers.*.env.*.name", Shape::text},
    Field{"spec.containers.*.securityContext", Shape::object},
    Field{"spec.containers.*.envFrom", Shape::list},
    Field{"spec.containers.*.volumeMounts", Shape::list},
    Field{"spec.containers.*.volumeMounts.*", Shape::object},
    Field{"spec.containers.*.volumeMounts.*.mountPath", Shape::text},
    Field{"spec.containers.*.resources", Shape::object},
    Field{"spec.containers.*.resources.limits", Shape::object},
    Field{"spec.containers.*.resources.requests", Shape::object},
};

bool has_shape(const json& value, Shape shape) {
  switch (shape) {
    case Shape::object:
      return value.is_object();
    case Shape::list:
      return value.is_array();
    case Shape::text:
      return value.is_string();
    case Shape::integer:
      return value.is_number_integer();
  }
  return false;
}

std::string_view name_of(Shape shape) {
  switch (shape) {
    case Shape::object:
      return "an object";
    case Shape::list:
      return "a list";
    case Shape::text:
      return "a string";
    case Shape::integer:
      return "an integer";
  }
  return "";
}

/// Checks `value`, found at `place`, against the rest of `path`. A missing field is fine. So is a parent of the wrong
/// type: its own row of the table reports it.
std::string fault_at(const json& value, std::string_view path, const std::string& place, Shape shape) {
  if (path.empty()) {
    return has_shape(value, shape) ? std::string{}
                                   : fmt::format("{} must be {}, got {}", place, name_of(shape), value.dump());
  }
  const auto dot = path.find('.');
  const std::string_view head = path.substr(0, dot);
  const std::string_view rest = dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
  if (head == "*") {
    if (!value.is_array()) return {};
    for (std::size_t index = 0; index < value.size(); ++index) {
      auto fault = fault_at(value[index], rest, fmt::format("{}[{}]", place, index), shape);
      if (!fault.empty()) return fault;
    }
    return {};
  }
  if (!value.is_object() || !value.contains(head)) return {};
  return fault_at(value.at(std::string{head}), rest, fmt::format("{}.{}", place, head), shape);
}

}  // namespace

std::string template_shape_fault(const json& pod_template) {
  for (const Field& field : fields) {
    auto fault = fault_at(pod_template, field.path, "spec.template", field.shape);
    if (!fault.empty()) return fault;
  }
  return {};
}

}  // namespace trainyard::manifest
