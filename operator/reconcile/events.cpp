#include "operator/reconcile/events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/contract.hpp"
#include "common/text.hpp"
#include "common/time_text.hpp"
#include "common/try.hpp"
#include "operator/manifest/names.hpp"

namespace trainyard::reconcile {
namespace {

constexpr std::size_t note_bytes_max = 1024;  // The API's limit.

std::string event_name(const api::TrainingJob& job, const plan::Event& event) {
  return fmt::format("{}-{}", manifest::owned_name(job), to_lower(event.reason));
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
          {"message", keep_beginning(event.note, note_bytes_max)},
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
