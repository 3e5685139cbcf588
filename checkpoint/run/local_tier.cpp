#include "checkpoint/run/local_tier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "checkpoint/format/data_file.hpp"
#include "checkpoint/run/agreement.hpp"
#include "checkpoint/run/copy_entries.hpp"
#include "checkpoint/run/inventory.hpp"
#include "checkpoint/run/state_reading.hpp"
#include "common/logging.hpp"
#include "common/try.hpp"

namespace trainyard::checkpoint {
namespace {

using nlohmann::json;

json json_of(const Copy& copy) {
  return {{"step", copy.id.step},
          {"generation", copy.id.generation},
          {"nonce", copy.nonce},
          {"job", copy.identity.job},
          {"jobUid", copy.identity.job_uid},
          {"attempt", copy.identity.attempt},
          {"fingerprint", copy.identity.fingerprint}};
}

Copy read_copy(const json& object) {
  return {.id = {.step = object.at("step"), .generation = object.at("generation")},
          .nonce = object.at("nonce"),
          .identity = {.job = object.at("job"),
                       .job_uid = object.at("jobUid"),
                       .attempt = object.at("attempt"),
                       .fingerprint = object.at("fingerprint")}};
}

Result<Manifest> read_manifest(storage::Store& store, const CheckpointId& id) {
  return storage::get_text(store, manifest_key(id)).and_then(parse_manifest);
}

Result<void> remove_copy(storage::Store& store, const Inventory& inventory, const CheckpointId& id) {
  for (const std::string& key : keys_to_remove(inventory, id)) {
    TRY(store.remove(key));
  }
  return {};
}

// Removes the copies for which `is_useless` is true, and what killed writers left of such copies.
template <typename IsUseless>
Result<void> remove_if(storage::Store& store, const Inventory& inventory, const IsUseless& is_useless) {
  for (const CheckpointId& id : inventory.present) {
    if (!is_useless(id)) continue;
    TRY(remove_copy(store, inventory, id));
  }
  return store.remove_unfinished([&](std::string_view folder) {
    const auto id = parse_folder_key(folder);
    return id && is_useless(*id);
  });
}

void warn_not_removed(const Error& error) {
  logging::warn("old local checkpoints were not removed", {{"error", error.message}});
}

std::int64_t node_count(const std::vector<std::int64_t>& keepers) {
  return static_cast<std::int64_t>(std::set<std::int64_t>{keepers.begin(), keepers.end()}.size());
}

}  // namespace

std::vector<std::int64_t> keepers_of(std::span<const std::string> names) {
  std::map<std::string_view, std::int64_t> first;
  std::vector<std::int64_t> keepers;
  for (const std::string& name : names)
    keepers.push_back(first.emplace(name, static_cast<std::int64_t>(keepers.size())).first->second);
  return keepers;
}

LocalTier::LocalTier(Communicator& communicator, std::unique_ptr<storage::Store> store,
                     std::vector<std::int64_t> keepers, std::int64_t keep)
    : communicator_{&communicator}, store_{std::move(store)}, keepers_{std::move(keepers)}, keep_{keep} {}

Result<LocalTier> LocalTier::join(Communicator& communicator, std::unique_ptr<storage::Store> store,
                                  std::string_view node, std::int64_t keep) {
  const auto names = communicator.all_gather(node);
  if (!names) return fail(ErrorKind::cancelled, names.error().message);
  return LocalTier{communicator, std::move(store), keepers_of(*names), keep};
}

Result<LocalView> LocalTier::list_copies() const {
  json copies = json::array();
  json damaged = json::array();
  const auto listed = is_keeper() ? list_checkpoints(*store_) : Result<Inventory>{};
  if (!listed) damaged.push_back(fmt::format("rank {}: {}", rank(), listed.error().message));
  for (const CheckpointId& id : listed ? listed->complete : std::vector<CheckpointId>{}) {
    const auto manifest = read_manifest(*store_, id);
    const auto whole = manifest.and_then([&](const Manifest& m) { return check_files(*listed, m, id); });
    if (whole) {
      copies.push_back(json_of({.id = id, .nonce = manifest->nonce, .identity = manifest->identity}));
    } else {
      damaged.push_back(fmt::format("rank {}: {}: {}", rank(), uri_of(id), whole.error().message));
    }
  }
  const auto all =
      TRY(gather_all(*communicator_, json{{"copies", std::move(copies)}, {"damaged", std::move(damaged)}}));
  LocalView view;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const json& copy : all[i].at("copies")) view.copies[static_cast<std::int64_t>(i)].push_back(read_copy(copy));
    for (const json& one : all[i].at("damaged")) view.damaged.push_back(one);
  }
  return view;
}

Result<LocalLoad> LocalTier::load(const Candidate& candidate, std::span<const HostEntry> entries) const {
  const std::int64_t root = candidate.keepers.front();
  Result<json> text;
  if (rank() == root) text = storage::get_text(*store_, manifest_key(candidate.id)).map([](auto t) { return json(t); });
  const auto shared = broadcast_from(*communicator_, root, text);
  if (!shared && shared.error().kind == ErrorKind::cancelled) return tl::unexpected(shared.error());
  const auto manifest = shared.and_then([](const json& t) { return parse_manifest(t.get<std::string>()); });
  if (!manifest) return LocalLoad{.manifest = {}, .damaged = {root}, .reason = manifest.error().message};

  const auto fits = check_entries(*manifest, entries);
  const auto whole = check_copy(candidate, *manifest);
  const auto all = TRY(gather_all(*communicator_, json{{"misfit", fits ? "" : fits.error().message},
                                                       {"damage", whole ? "" : whole.error().message}}));
  LocalLoad load;
  std::set<std::int64_t> damaged;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string misfit = all[i].at("misfit");
    const std::string damage = all[i].at("damage");
    if (!misfit.empty()) return LocalLoad{.manifest = {}, .damaged = candidate.keepers, .reason = misfit};
    if (damage.empty()) continue;
    damaged.insert(keepers_[i]);
    if (load.reason.empty()) load.reason = fmt::format("rank {}: {}", i, damage);
  }
  load.damaged.assign(damaged.begin(), damaged.end());
  if (!load.damaged.empty()) return load;

  const bool is_everywhere = static_cast<std::int64_t>(candidate.keepers.size()) == node_count(keepers_);
  const Result<void> read = !is_everywhere ? read_for_all(root, *manifest, entries)
                                           : agree(*communicator_, read_state(*store_, *manifest, rank(), entries));
  if (!read && read.error().kind == ErrorKind::cancelled) return tl::unexpected(read.error());
  if (!read) return fail(ErrorKind::io, fmt::format("loading {}: {}", uri_of(candidate.id), read.error().message));
  load.manifest = *manifest;
  return load;
}

// Checks nothing if this node has no copy. A rank that is no keeper checks only that it can read there.
Result<void> LocalTier::check_copy(const Candidate& candidate, const Manifest& manifest) const {
  const std::int64_t keeper = keepers_[static_cast<std::size_t>(rank())];
  if (std::ranges::find(candidate.keepers, keeper) == candidate.keepers.end()) return {};
  const auto here = TRY(read_manifest(*store_, candidate.id));
  if (here.nonce != manifest.nonce || here.receipts != manifest.receipts)
    return fail(ErrorKind::corrupt,
                uri_of(candidate.id) + " was written by another save than the copies on the other nodes");
  return keeper == rank() ? check_bytes(*store_, manifest) : Result<void>{};
}

Result<void> LocalTier::read_for_all(std::int64_t root, const Manifest& manifest,
                                     std::span<const HostEntry> entries) const {
  Result<void> read;
  if (rank() == root) read = read_state(*store_, manifest, rank(), entries);
  TRY(agree(*communicator_, read));
  BroadcastPart common{.root = root, .spans = {}};
  std::vector<const HostEntry*> own;
  for (const HostEntry& entry : entries) {
    const bool is_saved = std::ranges::find(manifest.entries, entry.info) != manifest.entries.end();
    if (entry.info.placement != Placement::per_rank) {
      common.spans.push_back(entry.bytes);
    } else if (is_saved) {
      own.push_back(&entry);
    }
  }
  TRY(broadcast_parts(*communicator_, std::span{&common, 1}));
  const auto ranks = std::min(communicator_->world_size(), static_cast<std::int64_t>(manifest.receipts.size()));
  for (std::int64_t other = 0; other < ranks; ++other) {
    std::string text;
    std::vector<HostEntry> into;
    for (const HostEntry* entry : own) text.append(entry->info.bytes, '\0');
    std::span<std::byte> left = std::as_writable_bytes(std::span{text});
    for (const HostEntry* entry : own) {
      into.push_back({.info = entry->info, .bytes = left.first(entry->info.bytes)});
      left = left.subspan(entry->info.bytes);
    }
    Result<json> outcome = json(true);
    if (rank() == root) outcome = read_state(*store_, manifest, other, into).map([] { return json(true); });
    TRY(broadcast_from(*communicator_, root, outcome));
    const auto message = communicator_->broadcast(text, root);
    if (!message) return fail(ErrorKind::cancelled, message.error().message);
    if (other != rank()) continue;
    auto bytes = std::as_bytes(std::span{*message});
    for (const HostEntry* entry : own) {
      std::ranges::copy(bytes.first(entry->bytes.size()), entry->bytes.begin());
      bytes = bytes.subspan(entry->bytes.size());
    }
  }
  return {};
}

void LocalTier::remove_superseded(std::int64_t generation, const std::optional<CheckpointId>& resumed_from) const {
  if (!is_keeper()) return;
  const auto listed = list_checkpoints(*store_);
  if (!listed) return warn_not_removed(listed.error());
  const auto removed = remove_if(*store_, *listed, [&](const CheckpointId& id) {
    const bool is_complete = std::ranges::find(listed->complete, id) != listed->complete.end();
    const bool may_be_candidate = id.generation < generation && resumed_from && id <= *resumed_from && is_complete;
    return id.generation <= generation && !may_be_candidate;
  });
  if (!removed) warn_not_removed(removed.error());
}

Result<std::string> LocalTier::save(const Manifest& manifest, std::span<const HostEntry> entries) const {
  auto own = TRY(gather_own(*communicator_, entries));
  Result<void> written;
  if (is_keeper()) written = write(manifest, entries, own);
  const auto all = TRY(gather_all(*communicator_, json(written ? "" : written.error().message)));
  std::string failures;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string failure = all[i];
    if (failures.empty() && !failure.empty()) failures = fmt::format("rank {}: {}", i, failure);
  }
  return failures;
}

// Makes room first, since a copy that was never finished may fill the disk. Removes at once what is left of a copy that
// fails.
Result<void> LocalTier::write(Manifest manifest, std::span<const HostEntry> entries,
                              std::vector<std::string>& own) const {
  TRY(remove_older(manifest.id));
  Result<void> written;
  for (std::size_t i = 0; i < own.size() && written; ++i) {
    const auto file = static_cast<std::int64_t>(i);
    auto receipt = write_all(*store_, manifest, file, entries_of_file(entries, file, own[i]));
    if (receipt) manifest.receipts.push_back(std::move(*receipt));
    written = receipt.map([](const Receipt&) {});
  }
  if (written) written = storage::put_text(*store_, manifest_key(manifest.id), to_text(manifest));
  if (written) return remove_older({.step = manifest.id.step + 1, .generation = manifest.id.generation});
  if (const auto listed = list_checkpoints(*store_); listed) {
    if (auto removed = remove_copy(*store_, *listed, manifest.id); !removed) warn_not_removed(removed.error());
  }
  return written;
}

// Keeps `keep_` complete copies besides `next`, which is being written or will be. Leaves copies of newer generations
// alone.
Result<void> LocalTier::remove_older(const CheckpointId& next) const {
  const auto listed = TRY(list_checkpoints(*store_));
  std::vector<CheckpointId> complete;
  std::ranges::copy_if(listed.complete, std::back_inserter(complete),
                       [&](const CheckpointId& id) { return id.generation <= next.generation && id != next; });
  std::ranges::sort(complete, [](const CheckpointId& a, const CheckpointId& b) {
    return std::tie(a.generation, a.step) > std::tie(b.generation, b.step);
  });
  complete.resize(std::min(complete.size(), static_cast<std::size_t>(keep_)));
  return remove_if(*store_, listed, [&](const CheckpointId& id) {
    return id.generation <= next.generation && id != next && std::ranges::find(complete, id) == complete.end();
  });
}

std::string LocalTier::uri_of(const CheckpointId& id) const {
  return store_->uri_of(folder_key(id));
}

}  // namespace trainyard::checkpoint
