#include "worker/checkpoint/core/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "common/check.hpp"
#include "common/logging.hpp"
#include "storage/crc32c.hpp"
#include "worker/checkpoint/core/agreement.hpp"
#include "worker/checkpoint/core/data_file.hpp"
#include "worker/checkpoint/core/fence.hpp"
#include "worker/checkpoint/core/local_tier.hpp"
#include "worker/checkpoint/core/own_bytes.hpp"
#include "worker/checkpoint/core/selection.hpp"
#include "worker/checkpoint/core/shards.hpp"

namespace trainyard::checkpoint {
namespace {

std::vector<EntryInfo> infos_of(std::span<const HostEntry> entries) {
  std::vector<EntryInfo> infos;
  for (const HostEntry& entry : entries) infos.push_back(entry.info);
  return infos;
}

Result<void> check_own(std::span<const HostEntry> entries) {
  std::set<std::string_view> names;
  for (const HostEntry& entry : entries) {
    if (auto held = check_held(entry); !held) return held;
    if (!names.insert(entry.info.name).second)
      return fail(ErrorKind::internal, fmt::format("two entries are named {}", entry.info.name));
  }
  return {};
}

nlohmann::json json_of(const std::vector<Rows>& shards) {
  nlohmann::json list = nlohmann::json::array();
  for (const Rows& rows : shards) list.push_back({rows.begin, rows.end});
  return list;
}

std::vector<Rows> read_shards(const nlohmann::json& list) {
  std::vector<Rows> shards;
  for (const nlohmann::json& rows : list) shards.push_back({.begin = rows.at(0), .end = rows.at(1)});
  return shards;
}

// Ranks that disagree about what is saved would write a checkpoint that is none.
Result<void> agree_on_plan(const RunContext& context, const Manifest& plan, std::span<const HostEntry> entries) {
  Manifest comparable = plan;
  comparable.time = {};
  const nlohmann::json same = {{"step", plan.id.step}, {"digest", storage::crc32c(to_text(comparable))}};
  const Result<nlohmann::json> mine = nlohmann::json{{"same", same}, {"shards", json_of(shards_of(entries))}};
  const auto all = gather_all(context.communicator, mine);
  if (!all) return tl::unexpected(all.error());
  std::vector<std::vector<Rows>> shards;
  for (std::size_t rank = 0; rank < all->size(); ++rank) {
    if (const auto& first = all->front().at("same"), &other = (*all)[rank].at("same"); other != first) {
      return fail(ErrorKind::internal,
                  fmt::format("rank {} and rank 0 do not save the same entries, values and step: {} and {}", rank,
                              other.dump(), first.dump()));
    }
    shards.push_back(read_shards((*all)[rank].at("shards")));
  }
  return check_shards(plan.entries, shards);
}

Result<void> agree_on_state(const RunContext& context, const Manifest& plan, std::span<const HostEntry> entries) {
  return agree(context.communicator, check_own(entries)).and_then([&] {
    return agree_on_plan(context, plan, entries);
  });
}

Result<std::vector<Receipt>> write_together(const RunContext& context, const CheckpointId& id,
                                            std::span<const HostEntry> entries) {
  const auto mine = write_share(context.store, id, context.communicator.rank(), context.communicator.world_size(),
                                entries, context.chunk_bytes_max)
                        .map([](const Receipt& receipt) { return to_json(receipt); });
  const auto all = gather_all(context.communicator, mine);
  if (!all) return tl::unexpected(all.error());
  std::vector<Receipt> receipts;
  for (const nlohmann::json& object : *all) {
    auto receipt = parse_receipt(object);
    if (!receipt) return tl::unexpected(receipt.error());
    receipts.push_back(std::move(*receipt));
  }
  return receipts;
}

}  // namespace

Result<std::optional<Restored>> Run::restore(std::span<const HostEntry> entries) {
  if (context_.local != nullptr) {
    if (auto fits = agree(context_.communicator, check_fits_copies(entries)); !fits)
      return tl::unexpected(fits.error());
  }
  auto resumption = restore_state(context_, entries);
  if (!resumption) return tl::unexpected(resumption.error());
  resumption_ = std::move(*resumption);
  const auto& resumed_from = resumption_->claim.resumed_from;
  if (resumed_from && !resumption_->restored->is_local) complete_.insert(*resumed_from);
  if (context_.local != nullptr) context_.local->settle(generation(), resumed_from);
  return resumption_->restored;
}

Result<Saved> Run::save(std::span<const HostEntry> entries, const nlohmann::json& values, std::int64_t step,
                        bool is_complete) {
  Manifest manifest = plan_of(entries, values, step, is_complete);
  if (auto ready = agree_on_state(context_, manifest, entries); !ready) return tl::unexpected(ready.error());
  if (last_saved_ && last_saved_->id == manifest.id) {
    manifest.receipts = last_saved_->receipts;
  } else {
    auto receipts = write_together(context_, manifest.id, entries);
    if (!receipts) return tl::unexpected(receipts.error());
    manifest.receipts = std::move(*receipts);
  }
  Result<Inventory> listed = fail(ErrorKind::internal, "only rank 0 lists");
  if (auto committed = commit(manifest, listed); !committed) return tl::unexpected(committed.error());
  last_saved_ = manifest;
  facts_[manifest.id] = facts_of(values);
  complete_.insert(manifest.id);
  if (context_.is_rank0()) {
    remove_expired(manifest.id, listed);
    remove_unfinished();
  }
  return Saved{.step = step,
               .uri = context_.store.uri_of(folder_key(manifest.id)),
               .time = manifest.time,
               .bytes = static_cast<std::int64_t>(data_bytes(manifest))};
}

Result<std::string> Run::save_copies(std::span<const HostEntry> entries, const nlohmann::json& values,
                                     std::int64_t step) {
  const Manifest plan = plan_of(entries, values, step, /*is_complete=*/false);
  if (auto ready = agree_on_state(context_, plan, entries); !ready) return tl::unexpected(ready.error());
  return context_.local->save(plan, entries);
}

Manifest Run::plan_of(std::span<const HostEntry> entries, const nlohmann::json& values, std::int64_t step,
                      bool is_complete) {
  check(resumption_.has_value(), "restore() has succeeded before save()");
  return {.id = {.step = step, .generation = resumption_->claim.generation},
          .identity = context_.identity,
          .time = context_.clock.now(),
          .is_complete = is_complete,
          .nonce = fmt::format("{}-{}", resumption_->claim.nonce, ++commit_count_),
          .values = values,
          .entries = infos_of(entries),
          .receipts = {}};
}

Result<void> Run::end() {
  if (!context_.is_rank0() || !resumption_) return {};
  return put_end(context_.store, resumption_->claim);
}

Result<void> Run::commit(Manifest& manifest, Result<Inventory>& listed) {
  Result<nlohmann::json> mine;
  if (context_.is_rank0()) {
    mine = check_newest(context_.store, resumption_->claim)
               .and_then([&] { return put_manifest(context_.store, manifest, resumption_->claim); })
               .and_then([&] {
                 // A run that claimed meanwhile may have looked before the manifest was there. If nobody has, this
                 // checkpoint counts, and what is listed is this run's to judge.
                 listed = list_checkpoints(context_.store);
                 return check_newest(context_.store, resumption_->claim);
               })
               .map([&] { return nlohmann::json(manifest.time.time_since_epoch().count()); });
  }
  return follow_rank0(context_.communicator, mine).map([&](const nlohmann::json& time) {
    manifest.time = Time{std::chrono::milliseconds{time.get<std::int64_t>()}};
  });
}

// Only tidies up: what cannot be removed now is tried again after the next save.
void Run::remove_expired(const CheckpointId& saved, const Result<Inventory>& listed) {
  const auto warn = [](const Error& error) {
    logging::warn("old checkpoints were not removed", {{"error", error.message}});
  };
  if (!listed) return warn(listed.error());
  // What seems to have no manifest may have one that is not listed yet.
  std::vector<CheckpointId> complete = listed->complete;
  std::copy_if(listed->present.begin(), listed->present.end(), std::back_inserter(complete), [&](const auto& id) {
    return complete_.contains(id) && std::ranges::find(listed->complete, id) == listed->complete.end();
  });
  learn_facts(complete);
  for (const CheckpointId& id :
       expired(listed->present, complete, resumption_->claims, resumption_->claim, saved, context_.keep, facts_)) {
    // The manifest first: what is left of the rest is no checkpoint any more.
    std::vector<std::string> keys = {manifest_key(id)};
    for (const auto& [key, bytes] : listed->sizes) {
      if (parse_checkpoint_key(key) == id && key != keys.front()) keys.push_back(key);
    }
    for (const std::string& key : keys) {
      if (auto removed = context_.store.remove(key); !removed) return warn(removed.error());
    }
    complete_.erase(id);
  }
}

// Each is read once. One that cannot be read is asked for again after the next save, and stays until then.
void Run::learn_facts(std::span<const CheckpointId> complete) {
  if (!context_.keep.needs_facts()) return;
  for (const CheckpointId& id : complete) {
    if (facts_.contains(id)) continue;
    const auto manifest = storage::get_text(context_.store, manifest_key(id)).and_then(parse_manifest);
    if (manifest) facts_.emplace(id, facts_of(manifest->values));
  }
}

// Of runs before this one, which may have been killed. One that still lives is fenced, and loses nothing that counts.
void Run::remove_unfinished() {
  if (has_removed_unfinished_) return;
  const std::int64_t ours = resumption_->claim.generation;
  const auto removed = context_.store.remove_unfinished([&](std::string_view folder) {
    const auto generation = generation_of_folder(folder);
    return generation && *generation < ours;
  });
  has_removed_unfinished_ = removed.has_value();
  if (!removed) logging::warn("what killed runs left behind was not removed", {{"error", removed.error().message}});
}

}  // namespace trainyard::checkpoint
