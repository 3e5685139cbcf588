#include "operator/kube/request_path.hpp"

#include <fmt/format.h>

namespace trainyard::kube {
namespace {

std::string percent_encode(std::string_view text) {
  std::string encoded;
  for (const char character : text) {
    const bool is_plain = (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
                          (character >= '0' && character <= '9') ||
                          std::string_view{"-._~"}.find(character) != std::string_view::npos;
    if (is_plain) {
      encoded += character;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(character));
    }
  }
  return encoded;
}

/// Builds a path with a query; parameters without a value are left out.
class Query {
 public:
  explicit Query(std::string path) : target_{std::move(path)} {}
  Query& add(std::string_view name, std::string_view value) {
    if (value.empty()) return *this;
    target_ += fmt::format("{}{}={}", separator_, name, percent_encode(value));
    separator_ = '&';
    return *this;
  }
  [[nodiscard]] const std::string& target() const { return target_; }

 private:
  std::string target_;
  char separator_ = '?';
};

}  // namespace

std::string collection_path(const ResourceType& type, std::string_view name_space) {
  std::string path =
      type.group.empty() ? fmt::format("/api/{}", type.version) : fmt::format("/apis/{}/{}", type.group, type.version);
  if (type.is_namespaced && !name_space.empty()) path += fmt::format("/namespaces/{}", percent_encode(name_space));
  return fmt::format("{}/{}", path, type.plural);
}

std::string object_path(const ResourceType& type, std::string_view name_space, std::string_view name) {
  return fmt::format("{}/{}", collection_path(type, name_space), percent_encode(name));
}

std::string list_path(const ResourceType& type, const ListOptions& options) {
  // Leaves out the version beside a continue token, which has its own: the server refuses both together.
  return Query{collection_path(type, options.name_space)}
      .add("labelSelector", options.label_selector)
      .add("fieldSelector", options.field_selector)
      .add("resourceVersion", options.continue_token.empty() ? options.resource_version : "")
      .add("continue", options.continue_token)
      .add("limit", options.limit > 0 ? std::to_string(options.limit) : "")
      .target();
}

std::string watch_path(const ResourceType& type, const WatchOptions& options) {
  return Query{collection_path(type, options.name_space)}
      .add("watch", "true")
      .add("allowWatchBookmarks", "true")
      .add("labelSelector", options.label_selector)
      .add("fieldSelector", options.field_selector)
      .add("resourceVersion", options.resource_version)
      .add("timeoutSeconds", std::to_string(options.timeout.count()))
      .target();
}

std::string create_path(const ResourceType& type, std::string_view name_space, const CreateOptions& options) {
  return Query{collection_path(type, name_space)}
      .add("dryRun", options.is_dry_run ? "All" : "")
      .add("fieldValidation", options.is_strict ? "Strict" : "")
      .target();
}

std::string log_path(std::string_view name_space, std::string_view pod, const LogOptions& options) {
  return Query{object_path(pods, name_space, pod) + "/log"}
      .add("container", options.container)
      .add("follow", options.is_following ? "true" : "")
      .target();
}

}  // namespace trainyard::kube
