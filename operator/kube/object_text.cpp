#include "operator/kube/object_text.hpp"

namespace trainyard::kube {
namespace {

/// Depth of managedFields in a list: the list's items, the item, its metadata, the field.
constexpr int field_depth_max = 4;

}  // namespace

json parse_object(std::string_view text) {
  const auto is_kept = [](int depth, json::parse_event_t event, const json& parsed) {
    return event != json::parse_event_t::key || depth > field_depth_max || parsed != "managedFields";
  };
  return json::parse(text, is_kept, /*allow_exceptions=*/false);
}

}  // namespace trainyard::kube
