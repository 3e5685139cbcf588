#include "operator/control/lease.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/metadata.hpp"
#include "common/rfc3339.hpp"

namespace trainyard::control {
namespace {

using nlohmann::json;

Result<std::optional<Time>> time_of(const json& spec, const char* field) {
  const auto found = spec.find(field);
  if (found == spec.end() || found->is_null()) return std::optional<Time>{};
  if (!found->is_string()) return fail(ErrorKind::invalid, fmt::format("spec.{} is not a time", field));
  auto time = parse_rfc3339(found->get<std::string>());
  if (!time) return fail(fmt::format("spec.{}", field), time.error());
  return std::optional<Time>{*time};
}

std::int64_t number_of(const json& spec, const char* field) {
  const auto found = spec.find(field);
  return found != spec.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

}  // namespace

Result<Lease> parse_lease(const json& object) {
  auto metadata = api::parse_metadata(object);
  if (!metadata) return fail("a Lease", metadata.error());
  Lease lease{
      .name_space = metadata->name_space, .name = metadata->name, .resource_version = metadata->resource_version};
  const auto spec = object.find("spec");
  if (spec == object.end() || !spec->is_object()) return lease;  // made by hand, without a holder
  const auto holder = spec->find("holderIdentity");
  if (holder != spec->end() && holder->is_string()) lease.holder = holder->get<std::string>();
  lease.duration = std::chrono::seconds{number_of(*spec, "leaseDurationSeconds")};
  lease.transitions = number_of(*spec, "leaseTransitions");
  auto acquired = time_of(*spec, "acquireTime");
  if (!acquired) return fail("a Lease", acquired.error());
  auto renewed = time_of(*spec, "renewTime");
  if (!renewed) return fail("a Lease", renewed.error());
  lease.acquired = *acquired;
  lease.renewed = *renewed;
  return lease;
}

json to_json(const Lease& lease) {
  json object{{"apiVersion", "coordination.k8s.io/v1"},
              {"kind", "Lease"},
              {"metadata", {{"name", lease.name}, {"namespace", lease.name_space}}},
              {"spec",
               {{"holderIdentity", lease.holder},
                {"leaseDurationSeconds", lease.duration.count()},
                {"leaseTransitions", lease.transitions}}}};
  if (!lease.resource_version.empty()) object["metadata"]["resourceVersion"] = lease.resource_version;
  if (lease.acquired) object["spec"]["acquireTime"] = format_rfc3339_micro(*lease.acquired);
  if (lease.renewed) object["spec"]["renewTime"] = format_rfc3339_micro(*lease.renewed);
  return object;
}

}  // namespace trainyard::control
