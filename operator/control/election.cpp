#include "operator/control/election.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "api/metadata.hpp"
#include "common/check.hpp"
#include "common/time_text.hpp"

namespace trainyard::control {
namespace {

using nlohmann::json;
using std::chrono::seconds;

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

/// True when no candidate wrote to the lease in between. A person's annotation changes the resource version only, and
/// is no renewal.
bool is_same_record(const std::optional<Lease>& left, const std::optional<Lease>& right) {
  if (!left || !right) return left.has_value() == right.has_value();
  Lease compared = *right;
  compared.resource_version = left->resource_version;
  return *left == compared;
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

Instant Election::expires_at() const {
  if (!seen_ || seen_->holder.empty()) return changed_at_;
  // Bounded, because a lease written by hand may have any duration.
  return changed_at_ + std::clamp(seen_->duration, seconds{1}, seconds{60});
}

Election::Action Election::next_action(Instant now) const {
  if (now < next_action_at_) return Action::wait;
  if (!is_fresh_) return Action::read;
  if (!seen_) return Action::create;
  if (is_ours()) return Action::renew;
  return now >= expires_at() ? Action::take : Action::read;
}

void Election::observe(const std::optional<Lease>& lease, Instant now) {
  if (!is_same_record(seen_, lease)) changed_at_ = now;
  seen_ = lease;
  is_fresh_ = true;
  next_action_at_ = now;
  if (is_ours()) return;
  leader_until_ = Instant{};
  if (now < expires_at()) next_action_at_ = std::min(now + times_.retry, expires_at());
}

void Election::hold(const Lease& lease, Instant asked_at) {
  seen_ = lease;
  is_fresh_ = true;
  changed_at_ = asked_at;
  leader_until_ = asked_at + times_.give_up;
  next_action_at_ = asked_at + times_.renew;
}

void Election::fail(Instant now) {
  is_fresh_ = false;
  next_action_at_ = now + times_.retry;
}

Lease Election::to_write(std::string name_space, std::string name, Time calendar) const {
  Lease lease = seen_.value_or(Lease{});
  lease.name_space = std::move(name_space);
  lease.name = std::move(name);
  if (!is_ours()) {
    if (seen_) ++lease.transitions;
    lease.acquired = calendar;
  }
  lease.holder = holder_;
  lease.duration = std::chrono::duration_cast<seconds>(times_.lease);
  lease.renewed = calendar;
  return lease;
}

Lease Election::to_release(Time calendar) const {
  check(is_ours(), "only a lease of ours is given back");
  Lease lease = *seen_;
  lease.holder.clear();
  lease.duration = seconds{1};
  lease.renewed = calendar;
  return lease;
}

}  // namespace trainyard::control
