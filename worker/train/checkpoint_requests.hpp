#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "worker/rank/rank_link.hpp"

namespace trainyard::train {

/// A state that is in the store.
struct SavedState {
  std::int64_t step = 0;
  std::string uri;
};

/// The checkpoints that this rank is asked for, one after the other, and what came of the last one. Nobody asks another
/// rank than 0. Used from the training thread.
class CheckpointRequests {
 public:
  explicit CheckpointRequests(const rank::RankLink& link) : link_{link} {}

  /// A save is to be begun for one that waits: none of those under way will answer it.
  [[nodiscard]] bool is_save_asked() const { return !answering_ && pending(); }
  /// Training is to end with it.
  [[nodiscard]] bool is_exit_asked() const;

  /// A save of the present state begins: it will answer the one that waits.
  void begin_save() { answering_ = pending(); }
  /// How that save ended.
  void saved(const SavedState& state);
  void failed(const std::string& why);
  /// Training ends in order. Who still waits gets `state`, where that is the last one, or hears that it ended.
  void end(const std::optional<SavedState>& state, const std::string& how_it_ended);

  /// The last request that was answered, and how.
  [[nodiscard]] const std::optional<rank::CheckpointRecord>& record() const { return record_; }

 private:
  [[nodiscard]] std::optional<rank::CheckpointRequest> pending() const;
  void answer(rank::CheckpointRecord record);

  const rank::RankLink& link_;
  std::optional<rank::CheckpointRequest> answering_;  // By the save under way.
  std::optional<rank::CheckpointRecord> record_;
};

}  // namespace trainyard::train
