#include "checkpoint/run/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "checkpoint/format/data_file.hpp"
#include "checkpoint/format/shard_checks.hpp"
#include "checkpoint/run/agreement.hpp"
#include "checkpoint/run/copy_entries.hpp"
#include "checkpoint/run/fence.hpp"
#include "checkpoint/run/local_tier.hpp"
#include "checkpoint/run/newest_saved.hpp"
#include "common/check.hpp"
#include "common/logging.hpp"
#include "common/try.hpp"
#include "storage/crc32c.hpp"

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
    TRY(check_held(entry));
    if (!names.insert(entry.info.name).second)
      return fail(ErrorKind::internal, fmt::format("two entries are named {}", entry.info.name));
  }
  return {};
}

nlohmann::json shards_json(const std::vector<Rows>& shards) {
  nlohmann::json list = nlohmann::json::array();
  for (const Rows& rows : shards) list.push_back({rows.begin, rows.end});
  return list;
}

std::vector<Rows> read_shards(const nlohmann::json& list) {
  std::vector<Rows> shards;
  for (const nlohmann::json& rows : list) shards.push_back({.begin = rows.at(0), .end = rows.at(1)});
  return shards;
}

// If the ranks disagreed about what is saved, the checkpoint would be useless.
Result<void> agree_on_manifest(const RunContext& context, const Manifest& manifest,
                               std::span<const HostEntry> entries) {
  Manifest comparable = manifest;
  comparable.time = {};
  const nlohmann::json same = {{"step", manifest.id.step}, {"digest", storage::crc32c(to_text(comparable))}};
  const Result<nlohmann::json> mine = nlohmann::json{{"same", same}, {"shards", shards_json(shards_of(entries))}};
  const auto all = TRY(gather_all(context.communicator, mine));
  std::vector<std::vector<Rows>> shards;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (const auto& first = all.front().at("same"), &other = all[rank].at("same"); other != first) {
      return fail(ErrorKind::internal,
                  fmt::format("rank {} and rank 0 do not save the same entries, values and step: {} and {}", rank,
                              other.dump(), first.dump()));
    }
    shards.push_back(read_shards(all[rank].at("shards")));
  }
  return check_shards(manifest.entries, shards);
}

Result<void> agree_on_state(const RunContext& context, const Manifest& manifest, std::span<const HostEntry> entries) {
  return agree(context.communicator, check_own(entries)).and_then([&] {
    return agree_on_manifest(context, manifest, entries);
  });
}

Result<std::vector<Receipt>> write_together(const RunContext& context, const Manifest& manifest,
                                            std::span<const HostEntry> entries) {
  const auto mine = write_share(context.store, manifest, context.communicator.rank(), context.communicator.world_size(),
                                entries, context.chunk_bytes_max)
                        .map([](const Receipt& receipt) { return to_json(receipt); });
  const auto all = TRY(gather_all(context.communicator, mine));
  std::vector<Receipt> receipts;
  for (const nlohmann::json& object : all) {
    auto receipt = TRY(parse_receipt(object));
    receipts.push_back(std::move(receipt));
  }
  return receipts;
}

}  // namespace

Result<std::optional<Restored>> Run::restore(std::span<const HostEntry> entries) {
  if (context_.local != nullptr) {
    TRY(agree(context_.communicator, check_fits_copies(entries)));
  }
  resumption_ = TRY(restore_state(context_, entries));
  const auto& resumed_from = resumption_->claim.resumed_from;
  const bool is_remote = resumed_from && !resumption_->restored->is_local;
  if (context_.is_rank0())
    retention_.begin(resumption_->claim, resumption_->claims, is_remote ? resumed_from : std::nullopt);
  if (context_.local != nullptr) context_.local->remove_superseded(generation(), resumed_from);
  return resumption_->restored;
}

Result<Saved> Run::save(std::span<const HostEntry> entries, const nlohmann::json& values, std::int64_t step,
                        bool is_final) {
  Manifest manifest = manifest_without_receipts(entries, values, step, is_final);
  TRY(agree_on_state(context_, manifest, entries));
  if (last_saved_ && last_saved_->id == manifest.id) {
    manifest.receipts = last_saved_->receipts;
    manifest.data_nonce = last_saved_->data_nonce;
  } else {
    manifest.receipts = TRY(write_together(context_, manifest, entries));
  }
  TRY(commit(manifest));
  last_saved_ = manifest;
  if (context_.is_rank0()) retention_.note_saved(manifest.id, facts_of(values));
  return Saved{.step = step,
               .uri = context_.store.uri_of(folder_key(manifest.id)),
               .time = manifest.time,
               .bytes = static_cast<std::int64_t>(data_bytes(manifest))};
}

Result<std::string> Run::save_copies(std::span<const HostEntry> entries, const nlohmann::json& values,
                                     std::int64_t step) {
  const Manifest manifest = manifest_without_receipts(entries, values, step, /*is_final=*/false);
  TRY(agree_on_state(context_, manifest, entries));
  return context_.local->save(manifest, entries);
}

Manifest Run::manifest_without_receipts(std::span<const HostEntry> entries, const nlohmann::json& values,
                                        std::int64_t step, bool is_final) {
  check(resumption_.has_value(), "restore() has succeeded before save()");
  const std::string nonce = fmt::format("{}-{}", resumption_->claim.nonce, ++commit_count_);
  return {.id = {.step = step, .generation = resumption_->claim.generation},
          .identity = context_.identity,
          .time = context_.clock.now(),
          .is_final = is_final,
          .nonce = nonce,
          .data_nonce = nonce,
          .values = values,
          .entries = infos_of(entries),
          .receipts = {}};
}

Result<void> Run::end() {
  if (!context_.is_rank0() || !resumption_) return {};
  return put_end(context_.store, resumption_->claim);
}

Result<void> Run::record(const CheckpointId& id) {
  if (last_saved_ && last_saved_->id == id) return {};  // The record names it already.
  return put_newest_saved(context_.store, resumption_->claim, id.step);
}

Result<void> Run::commit(Manifest& manifest) {
  Result<nlohmann::json> mine;
  if (context_.is_rank0()) {
    mine = check_newest(context_.store, resumption_->claim)
               .and_then([&] { return put_manifest(context_.store, manifest, resumption_->claim); })
               .and_then([&] { return record(manifest.id); })
               .and_then([&] {
                 // A run that claimed meanwhile may have searched before the manifest and the record existed. If no run
                 // has, every later run finds this checkpoint by the record, even if the lists lag behind.
                 return check_newest(context_.store, resumption_->claim);
               })
               .map([&] { return nlohmann::json(manifest.time.time_since_epoch().count()); });
  }
  return broadcast_from_rank0(context_.communicator, mine).map([&](const nlohmann::json& time) {
    manifest.time = Time{std::chrono::milliseconds{time.get<std::int64_t>()}};
  });
}

}  // namespace trainyard::checkpoint
