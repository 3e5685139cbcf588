#include "tests/simulation/author.hpp"

#include <fmt/format.h>

#include <array>

#include "api/contract.hpp"
#include "operator/manifest/names.hpp"
#include "operator/plan/deletion.hpp"
#include "operator/plan/request_status.hpp"

namespace trainyard::simulation {

using namespace std::chrono_literals;

void Author::act() {
  if (acts_left_ == 0 || below(6) != 0) return;
  const auto victim = world_.job();
  if (!victim) return;
  --acts_left_;
  ++acts_;
  // Names of the victim: its own in another namespace, and in its own namespace the prefix of its pods' names.
  const std::array<Key, 3> keys{Key{.name_space = "zz", .name = victim->metadata.name},
                                Key{.name_space = victim->metadata.name_space, .name = manifest::owned_name(*victim)},
                                Key{.name_space = victim->metadata.name_space, .name = "x"}};
  const Key& key = keys.at(below(keys.size()));
  if (!world_.api.get(kube::training_jobs, key.name_space, key.name)) return apply(key);
  switch (below(8)) {
    case 0:
      static_cast<void>(world_.api.remove(kube::training_jobs, key.name_space, key.name));
      return;
    case 1:
      return edit(key);
    case 2:
    case 3:
      return annotate(key);
    case 4:
      return lie(key);
    default:
      return end_a_pod(key);
  }
}

json Author::manifest_of(const Key& key) {
  auto job = builders::a_job().replicas(1 + static_cast<std::int64_t>(below(2)));
  switch (below(6)) {
    case 0:
      job.on_delete();
      break;
    case 1:
      job.ttl(1s);
      break;
    case 2:
      job.deadline(5s);
      break;
    case 3:
      job.without_training().pod_template(
          R"({"metadata": {"labels": {"trainyard.dev/job": "smoke", "intruder": "true"}},
          "spec": {"initContainers": [{"name": "first", "image": "evil"}],
                   "containers": [{"name": "worker", "image": "evil"}]}})");
      break;
    default:
      job.checkpoint();
  }
  json manifest = job.named(key.name).manifest();
  manifest["metadata"]["namespace"] = key.name_space;
  return manifest;
}

void Author::apply(const Key& key) {
  static_cast<void>(world_.api.create(kube::training_jobs, key.name_space, manifest_of(key)));
}

void Author::edit(const Key& key) {
  const std::array<json, 4> edits{
      {{{"suspend", true}}, {{"suspend", false}}, {{"replicas", 3}}, {{"checkpoint", {{"onDelete", "Delete"}}}}}};
  // The server refuses some of them.
  static_cast<void>(world_.api.patch(kube::training_jobs, key.name_space, key.name, kube::PatchType::merge,
                                     {{"spec", edits.at(below(edits.size()))}}));
}

void Author::annotate(const Key& key) {
  json metadata;
  switch (below(4)) {
    case 0:
      metadata["finalizers"] = json::array();  // The operator's too.
      break;
    case 1:
      metadata["finalizers"] = {plan::clean_up_finalizer, "author.example/hold"};
      break;
    case 2:
      metadata["annotations"][std::string{plan::checkpoint_request_annotation}] = std::string(9'000, '?');
      break;
    default:
      metadata["annotations"][std::string{plan::checkpoint_request_annotation}] = "lunch";
  }
  static_cast<void>(world_.api.patch(kube::training_jobs, key.name_space, key.name, kube::PatchType::merge,
                                     {{"metadata", metadata}}));
}

void Author::lie(const Key& key) {
  const auto object = world_.api.get(kube::training_jobs, key.name_space, key.name);
  const auto attempt = object->value("/status/attempt"_json_pointer, std::int64_t{0});
  world_.report(key, liar_.report(attempt, world_.clock.now()));
}

void Author::end_a_pod(const Key& key) {
  const auto page = world_.api.list(
      kube::pods,
      {.name_space = key.name_space, .label_selector = fmt::format("{}={}", contract::label_job, key.name)});
  if (page->items.empty()) return;
  const std::string name = page->items.at(below(page->items.size())).at("metadata").at("name");
  if (below(4) == 0) {
    static_cast<void>(world_.api.remove(kube::pods, key.name_space, name));
  } else {
    constexpr std::array codes{0, 1, 90, 91, 93, 96, 137};
    world_.kubelet.end(key.name_space, name, codes.at(below(codes.size())), liar_.termination_message());
  }
}

}  // namespace trainyard::simulation
