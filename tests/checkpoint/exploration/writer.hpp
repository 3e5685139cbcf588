#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/format/claim.hpp"
#include "checkpoint/format/layout.hpp"
#include "common/result.hpp"
#include "tests/checkpoint/exploration/call.hpp"

namespace trainyard::checkpoint::exploration {

/// Attempt `attempt` of the job `job`. All jobs have one model and one training set.
[[nodiscard]] Identity identity_of_attempt(std::int64_t attempt, const std::string& job = "a");
inline constexpr std::int64_t attempt_max = 99;  ///< The number of an attempt that is later than any writer's.

/// One run: it restores, saves `saves` times, a step further each time, and ends.
struct Script {
  Identity identity;
  int saves = 1;
  bool has_conditional_create = true;
};

/// The replies that a writer has got so far. A writer is a function of them: it has no other input.
struct History {
  std::vector<Reply> replies;
  std::uint64_t hash = 0;  ///< Of the replies, in order.
};
[[nodiscard]] std::shared_ptr<const History> extended(const History& history, Reply reply);

/// The state of a writer after the replies of its history.
struct WriterState {
  std::optional<Call> next;            ///< The call that it makes next; nothing: it has ended.
  std::vector<CheckpointId> reported;  ///< The saves that it has reported as done, in order.
  std::optional<Error> error;          ///< Why it ended before its time.
  bool has_wrong_bytes = false;        ///< It restored bytes that are not the step's.
  /// The hash of what the writer remembers, if it has just ended a restore, a save or a removal. All that it does from
  /// then on follows from this and from further replies: two histories that end in one memory go on alike.
  std::optional<std::uint64_t> memory;
};

/// Runs the real Run from its beginning against the replies of `history`, up to the first call that has none.
[[nodiscard]] WriterState replay(const Script& script, std::size_t author, const History& history);

struct Loaded {
  std::int64_t step = 0;        ///< 0: there is nothing to resume.
  std::int64_t generation = 0;  ///< The checkpoint's.
  bool has_wrong_bytes = false;
  std::string error;  ///< Not empty: the run could not resume, though no call failed.
};

enum class Lists { complete, empty };

/// The checkpoint from which a run of `identity` resumes that begins now, alone, and meets no fault but its `lists`.
[[nodiscard]] Loaded load(const Objects& objects, const Identity& identity, Lists lists);

}  // namespace trainyard::checkpoint::exploration
