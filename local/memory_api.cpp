#include "local/memory_api.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "api/validation/validate.hpp"
#include "common/text.hpp"
#include "common/time_text.hpp"
#include "common/try.hpp"
#include "local/object_rules.hpp"
#include "local/object_table.hpp"
#include "local/selector.hpp"

namespace trainyard::local {
namespace {

using kube::ResourceType;
using kube::WatchEvent;

std::string path_of(std::string_view name_space, std::string_view name) {
  return name_space.empty() ? std::string{name} : fmt::format("{}/{}", name_space, name);
}

std::string action(std::string_view verb, const ResourceType& type, std::string_view name_space,
                   std::string_view name) {
  return fmt::format("{} {} {}", verb, type.kind, path_of(name_space, name));
}

tl::unexpected<Error> modified_meanwhile(const ResourceType& type, std::string_view name) {
  return fail(
      ErrorKind::conflict,
      fmt::format("Operation cannot be fulfilled on {} \"{}\": the object has been modified; please apply your changes "
                  "to the latest version and try again",
                  resource_name(type), name));
}

tl::unexpected<Error> other_uid(const ResourceType& type, std::string_view name, std::string_view wanted,
                                std::string_view stored) {
  return fail(
      ErrorKind::conflict,
      fmt::format("Operation cannot be fulfilled on {} \"{}\": Precondition failed: UID in precondition: {}, UID in "
                  "object meta: {}",
                  resource_name(type), name, wanted, stored));
}

/// Compares the version and UID in `object` with those of `stored`. Both are optional, but a kind without unconditional
/// updates needs the version.
Result<void> check_preconditions(const ResourceType& type, const json& object, const json& stored) {
  const json& metadata = object.value("metadata", json::object());
  const json& kept = stored.at("metadata");
  const std::string name = kept.at("name");
  if (const std::string uid = metadata.value("uid", ""); !uid.empty() && uid != kept.at("uid")) {
    return other_uid(type, name, uid, kept.at("uid").get<std::string>());
  }
  const std::string version = metadata.value("resourceVersion", "");
  if (version.empty() && !takes_unconditional_updates(type)) {
    return fail(ErrorKind::invalid, fmt::format("{} \"{}\" is invalid: metadata.resourceVersion: Invalid value: 0x0: "
                                                "must be specified for an update",
                                                resource_name(type), name));
  }
  if (!version.empty() && version != kept.at("resourceVersion")) return modified_meanwhile(type, name);
  return {};
}

Result<std::uint64_t> parse_version(std::string_view text) {
  if (const auto version = parse_number<std::uint64_t>(text)) return *version;
  return fail(ErrorKind::invalid, fmt::format("resourceVersion '{}' is no number", text));
}

/// One message for several violations, as an API server writes it: `TrainingJob.trainyard.dev "x" is invalid: [spec.a:
/// must be ..., spec.b: ...]`.
std::string sentence(const json& job, const std::vector<api::Violation>& violations) {
  std::string list;
  for (const auto& violation : violations) list += (list.empty() ? "" : ", ") + api::to_string(violation);
  return fmt::format(fmt::runtime(violations.size() == 1 ? "TrainingJob.trainyard.dev \"{}\" is invalid: {}"
                                                         : "TrainingJob.trainyard.dev \"{}\" is invalid: [{}]"),
                     job.at("metadata").value("name", ""), list);
}

}  // namespace

MemoryApi::MemoryApi(const Clock& clock, MemoryApiOptions options)
    : clock_{clock},
      options_{std::move(options)},
      objects_{clock_, options_.history_events_max, [this] { changed_.notify_all(); }},
      random_{options_.uid_seed != 0 ? options_.uid_seed
                                     : (std::uint64_t{std::random_device{}()} << 32) + std::random_device{}()} {}

Result<json> MemoryApi::get(const ResourceType& type, std::string_view name_space, std::string_view name) {
  const std::scoped_lock lock{mutex_};
  const auto object = objects_.find(objects_.collection_of(type), {std::string{name_space}, std::string{name}});
  if (!object) return fail(action("get", type, name_space, name), object.error());
  return **object;
}

Result<kube::ListPage> MemoryApi::list(const ResourceType& type, const kube::ListOptions& options) {
  const auto selection = parse_selection(options.name_space, options.label_selector, options.field_selector);
  if (!selection) return fail(fmt::format("list {}", type.plural), selection.error());

  const std::scoped_lock lock{mutex_};
  OpenList found;
  if (options.continue_token.empty()) {
    found.version = std::to_string(objects_.version());
    for (const auto& [key, object] : objects_.collection_of(type).objects) {
      if (!selection->selects(*object)) continue;
      json& item = found.rest.emplace_back(*object);
      item.erase("apiVersion");
      item.erase("kind");
    }
  } else {
    const auto open = open_lists_.find(options.continue_token);
    if (open == open_lists_.end()) {
      return fail(ErrorKind::gone,
                  fmt::format("list {}: The provided continue parameter is too old to display a consistent "
                              "list result",
                              type.plural));
    }
    found = open->second;  // Kept: a client that lost the reply may ask for the page again.
  }

  kube::ListPage page{.items = {}, .resource_version = found.version, .continue_token = {}};
  const std::size_t count =
      options.limit > 0 ? std::min(found.rest.size(), static_cast<std::size_t>(options.limit)) : found.rest.size();
  const auto end = found.rest.begin() + static_cast<std::ptrdiff_t>(count);
  page.items.assign(std::make_move_iterator(found.rest.begin()), std::make_move_iterator(end));
  found.rest.erase(found.rest.begin(), end);
  if (!found.rest.empty()) {
    // Tokens are numbers of equal width, so the map's first is the oldest.
    page.continue_token = fmt::format("{:020}", ++last_list_);
    open_lists_.emplace(page.continue_token, std::move(found));
    if (open_lists_.size() > options_.open_lists_max) open_lists_.erase(open_lists_.begin());
  }
  return page;
}

Result<void> MemoryApi::watch(const ResourceType& type, const kube::WatchOptions& options,
                              const std::function<void(const WatchEvent&)>& on_event, std::stop_token stop) {
  const auto selection = parse_selection(options.name_space, options.label_selector, options.field_selector);
  if (!selection) return fail(fmt::format("watch {}", type.plural), selection.error());
  const auto since = parse_version(options.resource_version.empty() ? "0" : options.resource_version);
  if (!since) return fail(fmt::format("watch {}", type.plural), since.error());
  const auto deadline = std::chrono::steady_clock::now() + options.timeout;

  std::unique_lock lock{mutex_};
  WatchCursor cursor{.collection = objects_.collection_of(type), .selection = *selection, .version = *since};
  std::vector<WatchEvent> events;
  if (*since == 0)
    events = present_events(cursor, objects_.version());  // Without a version: first the present objects.
  auto next_bookmark = std::chrono::steady_clock::now() + options_.bookmark_interval;
  while (true) {
    auto newer = TRY(next_events(cursor, objects_.version()));
    std::move(newer.begin(), newer.end(), std::back_inserter(events));
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_bookmark || now >= deadline) {
      events.push_back(bookmark(cursor));
      next_bookmark = now + options_.bookmark_interval;
    }
    lock.unlock();
    for (const auto& event : events) {
      if (stop.stop_requested()) break;
      on_event(event);
    }
    if (stop.stop_requested()) return fail(ErrorKind::cancelled, fmt::format("watch {}: stopped", type.plural));
    if (now >= deadline) return {};
    events.clear();
    lock.lock();
    changed_.wait_until(lock, stop, std::min(deadline, next_bookmark), [&] {
      return objects_.version() > cursor.version || cursor.version < cursor.collection.forgotten_version;
    });
  }
}

Result<json> MemoryApi::create(const ResourceType& type, std::string_view name_space, const json& object,
                               const kube::CreateOptions& options) {
  const std::scoped_lock lock{mutex_};
  json created = object;
  if (auto good = check_shape(type, object); !good) return fail(action("create", type, name_space, ""), good.error());
  json& metadata = created["metadata"];
  if (metadata.is_null()) metadata = json::object();
  std::string name = metadata.value("name", "");
  if (const std::string prefix = metadata.value("generateName", ""); name.empty() && !prefix.empty()) {
    name = fmt::format("{}{:05x}", prefix, random_() & 0xfffff);
  }
  const std::string context = action("create", type, name_space, name);
  if (auto good = check_name(type, name); !good) return fail(context, good.error());
  if (metadata.value("namespace", std::string{name_space}) != name_space) {
    return fail(ErrorKind::invalid,
                fmt::format("{}: the namespace of the provided object does not match the namespace sent on "
                            "the request",
                            context));
  }
  if (!metadata.value("resourceVersion", "").empty()) {
    return fail(ErrorKind::invalid, context + ": resourceVersion should not be set on objects to be created");
  }
  created["apiVersion"] = api_version_of(type);
  created["kind"] = type.kind;
  metadata["name"] = name;
  if (type.is_namespaced) metadata["namespace"] = name_space;
  metadata["uid"] = make_uid();
  metadata["creationTimestamp"] = format_rfc3339(clock_.now());
  metadata["generation"] = 1;
  if (type == kube::training_jobs || type == kube::pods) created.erase("status");
  if (type == kube::pods) {
    if (auto good = check_pod(created); !good) return fail(context, good.error());
    created["status"] = {{"phase", "Pending"}};
  }
  if (options_.admission) {
    auto admitted = options_.admission(type, created, nullptr, options.is_strict);
    if (!admitted) return fail(context, admitted.error());
    created = *std::move(admitted);
  }
  ObjectTable::Collection& collection = objects_.collection_of(type);
  const ObjectTable::Key key{name_space, name};
  if (collection.objects.contains(key)) {
    return fail(ErrorKind::already_exists,
                fmt::format("{}: {} \"{}\" already exists", context, resource_name(type), name));
  }
  if (options.is_dry_run) return created;
  const ObjectTable::Object stored = objects_.store(collection, key, std::move(created));
  if (objects_.is_orphaned(*stored)) objects_.remove_gracefully(collection, key, std::nullopt);
  return *stored;
}

Result<json> MemoryApi::update(const ResourceType& type, std::string_view name_space, const json& object) {
  const std::scoped_lock lock{mutex_};
  const std::string name = object.value("/metadata/name"_json_pointer, "");
  return replace(objects_.collection_of(type), "update", {std::string{name_space}, name}, object);
}

Result<json> MemoryApi::update_status(const ResourceType& type, std::string_view name_space, const json& object) {
  const std::scoped_lock lock{mutex_};
  const std::string name = object.value("/metadata/name"_json_pointer, "");
  const std::string context = action("update status of", type, name_space, name);
  if (!has_status(type)) {
    return fail(ErrorKind::not_found, context + ": the server could not find the requested resource");
  }
  ObjectTable::Collection& collection = objects_.collection_of(type);
  const ObjectTable::Key key{name_space, name};
  const auto stored = objects_.find(collection, key);
  if (!stored) return fail(context, stored.error());
  if (auto good = check_preconditions(type, object, **stored); !good) return fail(context, good.error());
  json changed = **stored;
  changed.erase("status");
  if (object.contains("status")) changed["status"] = object["status"];
  if (options_.admission) {
    auto admitted = options_.admission(type, changed, stored->get(), false);
    if (!admitted) return fail(context, admitted.error());
    changed = *std::move(admitted);
  }
  return changed == **stored ? changed : *objects_.store(collection, key, std::move(changed));
}

Result<json> MemoryApi::patch(const ResourceType& type, std::string_view name_space, std::string_view name,
                              kube::PatchType patch_type, const json& patch) {
  const std::scoped_lock lock{mutex_};
  const std::string context = action("patch", type, name_space, name);
  ObjectTable::Collection& collection = objects_.collection_of(type);
  const ObjectTable::Key key{name_space, name};
  const auto stored = objects_.find(collection, key);
  if (!stored) return fail(context, stored.error());
  json wanted = **stored;
  try {
    if (patch_type == kube::PatchType::merge) {
      wanted.merge_patch(patch);
    } else {
      wanted = wanted.patch(patch);
    }
  } catch (const json::exception& error) {
    return fail(
        ErrorKind::invalid,
        fmt::format("{}: the server rejected our request due to an error in our request: {}", context, error.what()));
  }
  return replace(collection, "patch", key, wanted);
}

Result<void> MemoryApi::remove(const ResourceType& type, std::string_view name_space, std::string_view name,
                               const kube::DeleteOptions& options) {
  const std::scoped_lock lock{mutex_};
  const std::string context = action("delete", type, name_space, name);
  ObjectTable::Collection& collection = objects_.collection_of(type);
  const ObjectTable::Key key{name_space, name};
  const auto stored = objects_.find(collection, key);
  if (!stored) return fail(context, stored.error());
  const std::string uid = (*stored)->at("metadata").at("uid");
  if (!options.uid.empty() && options.uid != uid) return fail(context, other_uid(type, name, options.uid, uid).value());
  objects_.remove_gracefully(collection, key, options.grace_period_seconds);
  return {};
}

Result<json> MemoryApi::bind_pod(std::string_view name_space, std::string_view name, std::string_view node) {
  const std::scoped_lock lock{mutex_};
  const std::string context = action("bind", kube::pods, name_space, name);
  ObjectTable::Collection& collection = objects_.collection_of(kube::pods);
  const ObjectTable::Key key{name_space, name};
  const auto stored = objects_.find(collection, key);
  if (!stored) return fail(context, stored.error());
  json bound = **stored;
  if (const std::string present = bound.value("/spec/nodeName"_json_pointer, ""); !present.empty()) {
    return fail(ErrorKind::conflict,
                fmt::format("{}: pod {} is already assigned to node \"{}\"", context, name, present));
  }
  bound["spec"]["nodeName"] = node;
  return *objects_.store(collection, key, std::move(bound));
}

void MemoryApi::compact() {
  const std::scoped_lock lock{mutex_};
  objects_.forget_history();
  open_lists_.clear();
}

Result<json> MemoryApi::replace(ObjectTable::Collection& collection, std::string_view verb, const ObjectTable::Key& key,
                                const json& object) {
  const std::string context = action(verb, collection.type, key.first, key.second);
  const auto stored = objects_.find(collection, key);
  if (!stored) return fail(context, stored.error());
  if (auto good = check_preconditions(collection.type, object, **stored); !good) return fail(context, good.error());
  json wanted = updated(collection.type, **stored, object);
  if (options_.admission) {
    auto admitted = options_.admission(collection.type, wanted, stored->get(), false);
    if (!admitted) return fail(context, admitted.error());
    wanted = *std::move(admitted);
  }
  if (wanted == **stored) return wanted;  // The server writes nothing and keeps the version.
  const bool is_released = wanted.at("metadata").contains("deletionTimestamp") && !has_finalizers(wanted) &&
                           deletion_grace_seconds(collection.type, wanted, std::nullopt) == 0;
  const ObjectTable::Object changed = objects_.store(collection, key, std::move(wanted));
  if (is_released) objects_.erase(collection, key);
  return *changed;
}

std::string MemoryApi::make_uid() {
  const std::uint64_t high = random_();
  const std::uint64_t low = random_();
  // A version 4 UUID (RFC 9562, 5.4).
  return fmt::format("{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}", high >> 32, (high >> 16) & 0xffff, high & 0xfff,
                     0x8000 | ((low >> 48) & 0x3fff), low & 0xffff'ffff'ffff);
}

Admission training_job_admission() {
  return [](const kube::ResourceType& type, const json& object, const json* stored, bool) -> Result<json> {
    if (type != kube::training_jobs) return object;
    const json status = object.value("status", json::object());
    if (stored != nullptr && status != stored->value("status", json::object())) {
      if (const auto violations = api::validate_status(status); !violations.empty()) {
        return fail(ErrorKind::invalid, sentence(object, violations));
      }
    }
    // Metadata has no schema.
    if (stored != nullptr && object.value("spec", json{}) == stored->value("spec", json{})) return object;
    const auto violations =
        stored == nullptr ? api::validate_training_job(object) : api::validate_update(*stored, object);
    if (!violations.empty()) return fail(ErrorKind::invalid, sentence(object, violations));
    return api::with_defaults(object);
  };
}

}  // namespace trainyard::local
