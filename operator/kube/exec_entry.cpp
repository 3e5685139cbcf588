#include "operator/kube/exec_entry.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/field_reader.hpp"
#include "operator/kube/one_line.hpp"

namespace trainyard::kube {
namespace {

constexpr std::string_view exec_v1 = "client.authentication.k8s.io/v1";
constexpr api::EnumNames<std::string_view, 2> api_versions{
    {{exec_v1, exec_v1}, {"client.authentication.k8s.io/v1beta1", "client.authentication.k8s.io/v1beta1"}}};
constexpr api::EnumNames<InteractiveMode, 3> interactive_modes{{{"Never", InteractiveMode::never},
                                                                {"IfAvailable", InteractiveMode::if_available},
                                                                {"Always", InteractiveMode::always}}};

void read_environment(api::FieldReader& reader, std::map<std::string, std::string>& environment) {
  reader.read_list("env", [&](api::FieldReader& variable) {
    std::string name;
    variable.require("name");
    variable.read("name", name);
    if (name.find('=') != std::string::npos) variable.report("name", "must not contain =");
    variable.read("value", environment[name]);
  });
}

}  // namespace

Result<ExecEntry> parse_exec_entry(const nlohmann::json& exec, const std::filesystem::path& folder) {
  std::optional<Error> problem;
  api::FieldReader reader{exec, "the user's exec", problem};
  ExecEntry entry;
  reader.require("apiVersion");
  reader.read("apiVersion", entry.api_version, api_versions);
  reader.require("command");
  reader.read("command", entry.command);
  reader.read("args", entry.arguments);
  read_environment(reader, entry.environment);
  reader.read("installHint", entry.install_hint);
  entry.install_hint = on_one_line(entry.install_hint);  // hints are written for a terminal, with line ends
  // As in kubectl: v1beta1 is older than this field.
  if (entry.api_version == exec_v1 && reader.find("interactiveMode") == nullptr)
    reader.report("interactiveMode", "must be given with apiVersion v1: Never, IfAvailable or Always");
  reader.read("interactiveMode", entry.interactive_mode, interactive_modes);
  reader.read("provideClusterInfo", entry.is_cluster_wanted);
  if (problem) return tl::unexpected(*problem);
  if (entry.command.find('/') != std::string::npos) entry.command = (folder / entry.command).string();
  return entry;
}

}  // namespace trainyard::kube
