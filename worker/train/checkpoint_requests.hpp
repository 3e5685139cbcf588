#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "worker/rank/rank_link.hpp"

namespace trainyard::train {

/// A state that is saved in the remote store.
struct SavedState {
  std::int64_t step = 0;
  std::string uri;
};

/// The requests for checkpoints that rank 0 gets, one after the other, and the outcome of the last one. Other ranks get
/// none. Used from the training thread.
class CheckpointRequests {
 public:
  explicit CheckpointRequests(const rank::RankLink& link) : link_{link} {}

  /// True when a save must begin to answer a pending request, because the running save does not answer it.
  [[nodiscard]] bool is_save_asked() const { return !answering_ && pending(); }
  /// True when training must end with the pending request's checkpoint.
  [[nodiscard]] bool is_exit_asked() const;

  /// Notes that a save of the present state begins, which will answer the pending request.
  void begin_save() { answering_ = pending(); }
  /// The outcome of that save.
  void saved(const SavedState& state);
  void failed(const std::string& why);
  /// Answers a pending request because training ends: with `state`, which is the last state, or, where that is not
  /// saved, with `how_it_ended`.
  void end(const std::optional<SavedState>& state, const std::string& how_it_ended);

  /// The last request that was answered, with its outcome.
  [[nodiscard]] const std::optional<rank::RequestRecord>& record() const { return record_; }

 private:
  [[nodiscard]] std::optional<rank::CheckpointRequest> pending() const;
  void answer(rank::RequestRecord record);

  const rank::RankLink& link_;
  std::optional<rank::CheckpointRequest> answering_;  // The request that the running save will answer.
  std::optional<rank::RequestRecord> record_;
};

}  // namespace trainyard::train
