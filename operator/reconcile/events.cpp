#include "operator/reconcile/events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "api/contract.hpp"
#include "common/rfc3339.hpp"
#include "common/try.hpp"
#include "operator/manifest/names.hpp"

namespace trainyard::reconcile {
namespace {

std::string event_name(const api::TrainingJob& job, const plan::Event& event) {
  std::string reason = event.reason;
  std::ranges::transform(reason, reason.begin(),
                         [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return fmt::format("{}-{}", manifest::owned_name(job), reason);
}

/// `note` cut to the API's limit between two UTF-8 characters.
std::string bounded_note(std::string note) {
  constexpr std::size_t note_bytes_max = 1024;
  if (note.size() <= note_bytes_max) return note;
  std::size_t end = note_bytes_max;
  while (end > 0 && (static_cast<unsigned char>(note[end]) & 0xC0) == 0x80) --end;
  note.resize(end);
  return note;
}

}  // namespace

nlohmann::json build_event(const api::TrainingJob& job, const plan::Event& event, const std::string& instance,
                           Time now) {
  return {{"apiVersion", "v1"},
          {"kind", "Event"},
          {"metadata", {{"name", event_name(job, event)}, {"namespace", job.metadata.name_space}}},
          {"involvedObject",
           {{"apiVersion", fmt::format("{}/{}", contract::api_group, contract::api_version)},
            {"kind", "TrainingJob"},
            {"name", job.metadata.name},
            {"namespace", job.metadata.name_space},
            {"uid", job.metadata.uid}}},
          {"reason", event.reason},
          {"type", event.is_warning ? "Warning" : "Normal"},
          {"message", bounded_note(event.note)},
          {"source", {{"component", "trainyard-operator"}, {"host", instance}}},
          {"firstTimestamp", format_rfc3339(now)},
          {"lastTimestamp", format_rfc3339(now)},
          {"count", event.count}};
}

Result<void> record_event(kube::Api& api, const api::TrainingJob& job, const plan::Event& event,
                          const std::string& instance, Time now) {
  const std::string& name_space = job.metadata.name_space;
  const nlohmann::json object = build_event(job, event, instance, now);
  const auto created = api.create(kube::core_events, name_space, object);
  if (created) return {};
  if (created.error().kind != ErrorKind::already_exists) return tl::unexpected(created.error());
  nlohmann::json news{{"message", object.at("message")}, {"lastTimestamp", object.at("lastTimestamp")}};
  if (event.count > 1) news["count"] = event.count;
  TRY(api.patch(kube::core_events, name_space, event_name(job, event), kube::PatchType::merge, news));
  return {};
}

}  // namespace trainyard::reconcile
