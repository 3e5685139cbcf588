#include "operator/resource/mount_failure.hpp"

#include <nlohmann/json.hpp>

#include "api/field_reader.hpp"
#include "common/try.hpp"

namespace trainyard::resource {

Result<MountFailure> parse_mount_failure(const nlohmann::json& object) {
  auto metadata = TRY(api::parse_metadata(object));
  MountFailure failure{.metadata = std::move(metadata), .pod = {}, .message = {}};
  failure.metadata.labels.clear();
  failure.metadata.annotations.clear();
  std::optional<Error> problem;
  api::FieldReader fields{object, "", problem};
  fields.read("note", failure.message);
  fields.read_object("regarding", [&](api::FieldReader& regarding) {
    api::OwnerReference pod{.is_controller = true};
    regarding.read("uid", pod.uid);
    regarding.read("name", failure.pod);
    failure.metadata.controller = pod;
  });
  if (problem) return tl::unexpected(*problem);
  return failure;
}

}  // namespace trainyard::resource
