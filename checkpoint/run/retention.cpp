#include "checkpoint/run/retention.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "checkpoint/format/manifest.hpp"
#include "checkpoint/run/fence.hpp"
#include "checkpoint/run/superseded.hpp"
#include "common/logging.hpp"
#include "common/try.hpp"

namespace trainyard::checkpoint {

void Retention::begin(const Claim& ours, std::vector<Claim> claims, const std::optional<CheckpointId>& resumed_from) {
  ours_ = ours;
  claims_ = std::move(claims);
  if (resumed_from) complete_.insert(*resumed_from);
}

void Retention::note_saved(const CheckpointId& saved, const Facts& facts) {
  const std::scoped_lock lock{mutex_};
  notes_[saved] = facts;
  newest_ = saved;
}

std::optional<CheckpointId> Retention::take_notes() {
  const std::scoped_lock lock{mutex_};
  for (auto& [id, facts] : std::exchange(notes_, {})) {
    facts_[id] = facts;
    complete_.insert(id);
  }
  return std::exchange(newest_, std::nullopt);
}

void Retention::tidy_up(const std::stop_token& stop) {
  const auto saved = take_notes();
  if (!saved || stop.stop_requested()) return;
  const auto removed_expired = remove_expired(*saved, stop);
  if (stop.stop_requested()) return;
  if (!removed_expired)
    return logging::warn("old checkpoints were not removed", {{"error", removed_expired.error().message}});
  if (has_removed_unfinished_) return;
  const auto removed = remove_unfinished();
  has_removed_unfinished_ = removed.has_value();
  if (!removed) logging::warn("what killed runs left behind was not removed", {{"error", removed.error().message}});
}

Result<void> Retention::remove_expired(const CheckpointId& saved, const std::stop_token& stop) {
  const auto listed = TRY(list_checkpoints(store_));
  // A later run that has claimed the prefix may resume from what would be removed here.
  TRY(check_newest(store_, ours_));
  // This run's own checkpoints are complete even if a list that lags behind shows no manifest yet.
  std::vector<CheckpointId> complete = listed.complete;
  std::copy_if(listed.present.begin(), listed.present.end(), std::back_inserter(complete), [&](const auto& id) {
    return complete_.contains(id) && std::ranges::find(listed.complete, id) == listed.complete.end();
  });
  learn_facts(complete, stop);
  const auto gone = expired(listed.present, complete, claims_, ours_, saved, clock_.now(), keep_, facts_);
  std::vector<std::string> manifests;
  std::vector<std::string> others;
  for (const CheckpointId& id : gone) {
    const std::vector<std::string> keys = keys_to_remove(listed, id);
    if (keys.empty()) continue;
    manifests.push_back(keys.front());
    others.insert(others.end(), keys.begin() + 1, keys.end());
  }
  return store_.remove_all(manifests, stop).and_then([&] {
    for (const CheckpointId& id : gone) complete_.erase(id);
    return store_.remove_all(others, stop);
  });
}

// Reads each manifest once. A checkpoint whose manifest cannot be read stays, and is asked for again after the next
// save.
void Retention::learn_facts(std::span<const CheckpointId> complete, const std::stop_token& stop) {
  if (!keep_.needs_facts()) return;
  for (const CheckpointId& id : complete) {
    if (facts_.contains(id)) continue;
    if (stop.stop_requested()) return;
    const auto manifest = storage::get_text(store_, manifest_key(id)).and_then(parse_manifest);
    if (manifest) facts_.emplace(id, facts_of(manifest->values));
  }
}

// Removes what earlier runs left unfinished. An earlier run that still lives is fenced, so it loses nothing that a
// restore could take.
Result<void> Retention::remove_unfinished() {
  return store_.remove_unfinished([&](std::string_view folder) {
    const auto generation = generation_of_folder(folder);
    return generation && *generation < ours_.generation;
  });
}

}  // namespace trainyard::checkpoint
