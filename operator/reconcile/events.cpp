#include "operator/reconcile/events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "common/contract.hpp"
#include "common/rfc3339.hpp"
#include "operator/plan/names.hpp"

namespace trainyard::reconcile {
namespace {

std::string event_name(const resource::TrainingJob& job, const plan::Event& event) {
  std::string reason = event.reason;
  std::ranges::transform(reason, reason.begin(),
                         [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return fmt::format("{}-{}", plan::owned_name(job), reason);
}

/// The API's limit for a note; the end goes, at the border of a UTF-8 character.
std::string bounded_note(std::string note) {
  constexpr std::size_t note_bytes_max = 1024;
  if (note.size() <= note_bytes_max) return note;
  std::size_t end = note_bytes_max;
  while (end > 0 && (static_cast<unsigned char>(note[end]) & 0xC0) == 0x80) --end;
  note.resize(end);
  return note;
}

}  // namespace

nlohmann::json build_event(const resource::TrainingJob& job, const plan::Event& event, const std::string& instance,
                           Time now) {
  return {{"apiVersion", "events.k8s.io/v1"},
          {"kind", "Event"},
          {"metadata", {{"name", event_name(job, event)}, {"namespace", job.metadata.name_space}}},
          {"eventTime", format_rfc3339_micro(now)},
          {"reportingController", fmt::format("{}/operator", contract::api_group)},
          {"reportingInstance", instance},
          {"action", "Reconcile"},
          {"reason", event.reason},
          {"type", event.is_warning ? "Warning" : "Normal"},
          {"note", bounded_note(event.note)},
          {"regarding",
           {{"apiVersion", fmt::format("{}/{}", contract::api_group, contract::api_version)},
            {"kind", "TrainingJob"},
            {"name", job.metadata.name},
            {"namespace", job.metadata.name_space},
            {"uid", job.metadata.uid}}}};
}

Result<void> record_event(kube::Api& api, const resource::TrainingJob& job, const plan::Event& event,
                          const std::string& instance, Time now) {
  const std::string& name_space = job.metadata.name_space;
  const auto created = api.create(kube::events, name_space, build_event(job, event, instance, now));
  if (created) return {};
  if (created.error().kind != ErrorKind::already_exists) return tl::unexpected(created.error());
  if (event.count < 2) return {};
  const nlohmann::json series{{"series", {{"count", event.count}, {"lastObservedTime", format_rfc3339_micro(now)}}}};
  const auto patched = api.patch(kube::events, name_space, event_name(job, event), kube::PatchType::merge, series);
  if (!patched) return tl::unexpected(patched.error());
  return {};
}

}  // namespace trainyard::reconcile
