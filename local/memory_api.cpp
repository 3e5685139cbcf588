#include "local/memory_api.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "common/rfc3339.hpp"
#include "local/object_rules.hpp"

namespace trainyard::local {
namespace {

using kube::ResourceType;
using kube::WatchEvent;
using kube::WatchEventType;

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

/// The version and UID that `object` names are conditions; those that it leaves out are none.
Result<void> check_preconditions(const ResourceType& type, const json& object, const json& stored) {
  const json& metadata = object.value("metadata", json::object());
  const json& kept = stored.at("metadata");
  const std::string name = kept.at("name");
  if (const std::string uid = metadata.value("uid", ""); !uid.empty() && uid != kept.at("uid")) {
    return other_uid(type, name, uid, kept.at("uid").get<std::string>());
  }
  if (const std::string version = metadata.value("resourceVersion", "");
      !version.empty() && version != kept.at("resourceVersion")) {
    return modified_meanwhile(type, name);
  }
  return {};
}

Result<std::uint64_t> parse_version(std::string_view text) {
  std::uint64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return fail(ErrorKind::invalid, fmt::format("resourceVersion '{}' is no number", text));
  }
  return version;
}

bool is_in_namespace(std::string_view wanted, std::string_view name_space) {
  return wanted.empty() || wanted == name_space;
}

}  // namespace

MemoryApi::MemoryApi(const Clock& clock, MemoryApiOptions options)
    : clock_(clock),
      options_(std::move(options)),
      random_(options_.uid_seed != 0 ? options_.uid_seed
                                     : (std::uint64_t{std::random_device{}()} << 32) + std::random_device{}()) {}

Result<json> MemoryApi::get(const ResourceType& type, std::string_view name_space, std::string_view name) {
  const std::scoped_lock lock{mutex_};
  const auto object = find(collection_of(type), {std::string{name_space}, std::string{name}});
  if (!object) return fail(action("get", type, name_space, name), object.error());
  return **object;
}

Result<kube::ListPage> MemoryApi::list(const ResourceType& type, const kube::ListOptions& options) {
  const auto labels = parse_label_selector(options.label_selector);
  if (!labels) return fail(fmt::format("list {}", type.plural), labels.error());
  const auto fields = parse_field_selector(options.field_selector);
  if (!fields) return fail(fmt::format("list {}", type.plural), fields.error());

  const std::scoped_lock lock{mutex_};
  OpenList found;
  if (options.continue_token.empty()) {
    found.version = std::to_string(version_);
    for (const auto& [key, object] : collection_of(type).objects) {
      if (!is_in_namespace(options.name_space, key.first) || !labels_match(*labels, *object) ||
          !fields_match(*fields, *object)) {
        continue;
      }
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
    found = open->second;  // Kept: a page whose reply was lost may be asked for again.
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

struct MemoryApi::WatchCursor {
  Collection& collection;
  std::string name_space;
  Selector labels;
  Selector fields;
  std::uint64_t version = 0;  // Everything up to it has been delivered.

  bool selects(const Object& object) const {
    return object && is_in_namespace(name_space, object->at("metadata").value("namespace", "")) &&
           labels_match(labels, *object) && fields_match(fields, *object);
  }
};

Result<std::vector<WatchEvent>> MemoryApi::next_events(WatchCursor& cursor) {
  std::vector<WatchEvent> events;
  const Collection& collection = cursor.collection;
  if (cursor.version < collection.forgotten_version) {
    return fail(ErrorKind::gone, fmt::format("watch {}: too old resource version: {} ({})", collection.type.plural,
                                             cursor.version, collection.forgotten_version));
  }
  const auto first =
      std::upper_bound(collection.history.begin(), collection.history.end(), cursor.version,
                       [](std::uint64_t version, const Change& change) { return version < change.version; });
  for (auto change = first; change != collection.history.end(); ++change) {
    const bool was_selected = cursor.selects(change->before);
    const bool is_selected = cursor.selects(change->after);
    if (is_selected) {
      events.push_back({was_selected ? WatchEventType::modified : WatchEventType::added, *change->after});
    } else if (was_selected) {
      // What is gone, or has left the selection, is told with the version of the change.
      json last = *change->before;
      last["metadata"]["resourceVersion"] = std::to_string(change->version);
      events.push_back({WatchEventType::deleted, std::move(last)});
    }
  }
  cursor.version = std::max(cursor.version, version_);
  return events;
}

Result<void> MemoryApi::watch(const ResourceType& type, const kube::WatchOptions& options,
                              const std::function<void(const WatchEvent&)>& on_event, std::stop_token stop) {
  const auto labels = parse_label_selector(options.label_selector);
  if (!labels) return fail(fmt::format("watch {}", type.plural), labels.error());
  const auto fields = parse_field_selector(options.field_selector);
  if (!fields) return fail(fmt::format("watch {}", type.plural), fields.error());
  const auto since = parse_version(options.resource_version.empty() ? "0" : options.resource_version);
  if (!since) return fail(fmt::format("watch {}", type.plural), since.error());
  const auto deadline = std::chrono::steady_clock::now() + options.timeout;

  std::unique_lock lock{mutex_};
  WatchCursor cursor{collection_of(type), options.name_space, *labels, *fields, *since};
  std::vector<WatchEvent> events;
  if (*since == 0) {  // From no version: first what there is.
    for (const auto& [key, object] : cursor.collection.objects) {
      if (cursor.selects(object)) events.push_back({WatchEventType::added, *object});
    }
    cursor.version = version_;
  }
  auto next_bookmark = std::chrono::steady_clock::now() + options_.bookmark_interval;
  while (true) {
    auto newer = next_events(cursor);
    if (!newer) return tl::unexpected(newer.error());
    std::move(newer->begin(), newer->end(), std::back_inserter(events));
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_bookmark || now >= deadline) {
      events.push_back(
          {WatchEventType::bookmark,
           json{{"apiVersion", cursor.collection.type.group.empty() ? std::string{type.version}
                                                                    : fmt::format("{}/{}", type.group, type.version)},
                {"kind", type.kind},
                {"metadata", {{"resourceVersion", std::to_string(cursor.version)}}}}});
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
      return version_ > cursor.version || cursor.version < cursor.collection.forgotten_version;
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
  created["apiVersion"] =
      type.group.empty() ? std::string{type.version} : fmt::format("{}/{}", type.group, type.version);
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
  Collection& collection = collection_of(type);
  const Key key{name_space, name};
  if (collection.objects.contains(key)) {
    return fail(ErrorKind::already_exists,
                fmt::format("{}: {} \"{}\" already exists", context, resource_name(type), name));
  }
  if (options.is_dry_run) return created;
  const Object stored = store(collection, key, std::move(created));
  if (is_orphaned(*stored)) remove_gracefully(collection, key, std::nullopt);
  return *stored;
}

Result<json> MemoryApi::update(const ResourceType& type, std::string_view name_space, const json& object) {
  const std::scoped_lock lock{mutex_};
  const std::string name = object.value("/metadata/name"_json_pointer, "");
  return replace(collection_of(type), "update", {std::string{name_space}, name}, object);
}

Result<json> MemoryApi::update_status(const ResourceType& type, std::string_view name_space, const json& object) {
  const std::scoped_lock lock{mutex_};
  const std::string name = object.value("/metadata/name"_json_pointer, "");
  const std::string context = action("update status of", type, name_space, name);
  if (!has_status(type)) {
    return fail(ErrorKind::not_found, context + ": the server could not find the requested resource");
  }
  Collection& collection = collection_of(type);
  const Key key{name_space, name};
  const auto stored = find(collection, key);
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
  return changed == **stored ? changed : *store(collection, key, std::move(changed));
}

Result<json> MemoryApi::patch(const ResourceType& type, std::string_view name_space, std::string_view name,
                              kube::PatchType patch_type, const json& patch) {
  const std::scoped_lock lock{mutex_};
  const std::string context = action("patch", type, name_space, name);
  Collection& collection = collection_of(type);
  const Key key{name_space, name};
  const auto stored = find(collection, key);
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
  Collection& collection = collection_of(type);
  const Key key{name_space, name};
  const auto stored = find(collection, key);
  if (!stored) return fail(context, stored.error());
  const std::string uid = (*stored)->at("metadata").at("uid");
  if (!options.uid.empty() && options.uid != uid) return fail(context, other_uid(type, name, options.uid, uid).value());
  remove_gracefully(collection, key, options.grace_period_seconds);
  return {};
}

Result<json> MemoryApi::bind_pod(std::string_view name_space, std::string_view name, std::string_view node) {
  const std::scoped_lock lock{mutex_};
  const std::string context = action("bind", kube::pods, name_space, name);
  Collection& collection = collection_of(kube::pods);
  const Key key{name_space, name};
  const auto stored = find(collection, key);
  if (!stored) return fail(context, stored.error());
  json bound = **stored;
  if (const std::string present = bound.value("/spec/nodeName"_json_pointer, ""); !present.empty()) {
    return fail(ErrorKind::conflict,
                fmt::format("{}: pod {} is already assigned to node \"{}\"", context, name, present));
  }
  bound["spec"]["nodeName"] = node;
  return *store(collection, key, std::move(bound));
}

void MemoryApi::compact() {
  const std::scoped_lock lock{mutex_};
  for (auto& [name, collection] : collections_) {
    collection.history.clear();
    collection.forgotten_version = version_;
  }
  open_lists_.clear();
  changed_.notify_all();
}

MemoryApi::Collection& MemoryApi::collection_of(const ResourceType& type) {
  return collections_.try_emplace(resource_name(type), Collection{.type = type, .objects = {}, .history = {}})
      .first->second;
}

Result<MemoryApi::Object> MemoryApi::find(Collection& collection, const Key& key) {
  const auto found = collection.objects.find(key);
  if (found == collection.objects.end()) {
    return fail(ErrorKind::not_found, fmt::format("{} \"{}\" not found", resource_name(collection.type), key.second));
  }
  return found->second;
}

Result<json> MemoryApi::replace(Collection& collection, std::string_view verb, const Key& key, const json& object) {
  const std::string context = action(verb, collection.type, key.first, key.second);
  const auto stored = find(collection, key);
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
  const Object changed = store(collection, key, std::move(wanted));
  if (is_released) erase(collection, key);
  return *changed;
}

MemoryApi::Object MemoryApi::store(Collection& collection, const Key& key, json object) {
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  const auto stored = std::make_shared<const json>(std::move(object));
  Object& place = collection.objects[key];
  if (place) index_owners(collection, key, *place, false);
  index_owners(collection, key, *stored, true);
  record(collection, {.version = version_, .before = std::exchange(place, stored), .after = stored});
  return stored;
}

void MemoryApi::erase(Collection& collection, const Key& key) {
  const auto found = collection.objects.find(key);
  const Object last = found->second;
  index_owners(collection, key, *last, false);
  collection.objects.erase(found);
  record(collection, {.version = ++version_, .before = last, .after = nullptr});
  collect_dependents_of(last->at("metadata").at("uid"));
}

void MemoryApi::record(Collection& collection, Change change) {
  collection.history.push_back(std::move(change));
  if (collection.history.size() > options_.history_events_max) {
    collection.forgotten_version = collection.history.front().version;
    collection.history.pop_front();
  }
  changed_.notify_all();
}

void MemoryApi::index_owners(const Collection& collection, const Key& key, const json& object, bool is_present) {
  for (const auto& uid : owner_uids(object)) {
    auto& dependents = dependents_[uid];
    if (is_present) {
      dependents.emplace(resource_name(collection.type), key);
    } else {
      dependents.erase({resource_name(collection.type), key});
    }
    if (dependents.empty()) dependents_.erase(uid);
  }
}

void MemoryApi::remove_gracefully(Collection& collection, const Key& key, std::optional<std::int64_t> grace_seconds) {
  json object = *collection.objects.at(key);
  json& metadata = object["metadata"];
  const std::int64_t seconds = deletion_grace_seconds(collection.type, object, grace_seconds);
  if (seconds == 0 && !has_finalizers(object)) return erase(collection, key);
  // A later delete may shorten the grace period, never lengthen it.
  if (metadata.contains("deletionTimestamp") &&
      metadata.value("deletionGracePeriodSeconds", std::int64_t{0}) <= seconds)
    return;
  metadata["deletionTimestamp"] = format_rfc3339(clock_.now() + std::chrono::seconds{seconds});
  metadata["deletionGracePeriodSeconds"] = seconds;
  store(collection, key, std::move(object));
}

void MemoryApi::collect_dependents_of(const std::string& uid) {
  dead_owners_.insert(uid);
  const auto found = dependents_.find(uid);
  if (found == dependents_.end()) return;
  for (const auto& [name, key] : std::set{found->second}) {  // A copy: removing dependents changes the index.
    Collection& collection = collections_.at(name);
    // One that went with another dependent is no longer there.
    const auto dependent = collection.objects.find(key);
    if (dependent != collection.objects.end() && is_orphaned(*dependent->second)) {
      remove_gracefully(collection, key, std::nullopt);
    }
  }
}

bool MemoryApi::is_orphaned(const json& object) const {
  const auto owners = owner_uids(object);
  return !owners.empty() && std::all_of(owners.begin(), owners.end(),
                                        [this](const std::string& uid) { return dead_owners_.contains(uid); });
}

std::string MemoryApi::make_uid() {
  const std::uint64_t high = random_();
  const std::uint64_t low = random_();
  // A version 4 UUID (RFC 9562, 5.4).
  return fmt::format("{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}", high >> 32, (high >> 16) & 0xffff, high & 0xfff,
                     0x8000 | ((low >> 48) & 0x3fff), low & 0xffff'ffff'ffff);
}

}  // namespace trainyard::local
