#include "api/metadata.hpp"

#include "api/field_reader.hpp"

namespace trainyard::api {

Result<Metadata> parse_metadata(const nlohmann::json& object) {
  std::optional<Error> problem;
  Metadata metadata;
  FieldReader fields{object, "", problem};
  fields.require("metadata");
  fields.read_object("metadata", [&](FieldReader& read) {
    read.require("name");
    read.require("uid");
    read.read("name", metadata.name);
    read.read("namespace", metadata.name_space);
    read.read("uid", metadata.uid);
    read.read("resourceVersion", metadata.resource_version);
    read.read("generation", metadata.generation);
    read.read("labels", metadata.labels);
    read.read("annotations", metadata.annotations);
    read.read("creationTimestamp", metadata.creation_time);
    read.read("deletionTimestamp", metadata.deletion_time);
    read.read("finalizers", metadata.finalizers);
    std::int64_t grace_seconds = 0;
    read.read("deletionGracePeriodSeconds", grace_seconds);
    metadata.deletion_grace = std::chrono::seconds{grace_seconds};
    read.read_list("ownerReferences", [&](FieldReader& item) {
      OwnerReference owner;
      item.require("uid");
      item.read("apiVersion", owner.api_version);
      item.read("kind", owner.kind);
      item.read("name", owner.name);
      item.read("uid", owner.uid);
      item.read("controller", owner.is_controller);
      if (owner.is_controller) metadata.controller = owner;
    });
  });
  if (problem) return tl::unexpected(*problem);
  return metadata;
}

}  // namespace trainyard::api
