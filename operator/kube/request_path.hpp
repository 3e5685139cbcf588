#pragma once

#include <string>
#include <string_view>

#include "operator/kube/api.hpp"

/// Paths of the API server: pure functions from options to the percent-encoded target of a request.
namespace trainyard::kube {

/// "/apis/trainyard.dev/v1alpha1/namespaces/a/trainingjobs"; without a namespace: the collection of all namespaces.
[[nodiscard]] std::string collection_path(const ResourceType& type, std::string_view name_space);
[[nodiscard]] std::string object_path(const ResourceType& type, std::string_view name_space, std::string_view name);

[[nodiscard]] std::string list_path(const ResourceType& type, const ListOptions& options);
[[nodiscard]] std::string watch_path(const ResourceType& type, const WatchOptions& options);
[[nodiscard]] std::string create_path(const ResourceType& type, std::string_view name_space,
                                      const CreateOptions& options);

struct LogOptions {
  std::string container;
  bool is_following = false;  ///< Until the container ends.
};
[[nodiscard]] std::string log_path(std::string_view name_space, std::string_view pod, const LogOptions& options);

}  // namespace trainyard::kube
