#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tests/checkpoint/exploration/call.hpp"
#include "tests/checkpoint/exploration/writer.hpp"

namespace trainyard::checkpoint::exploration {

/// The writers and the faults that are explored.
struct Scenario {
  std::vector<Script> writers;
  /// How many of each may happen in one life of the store, anywhere in it.
  int crashes_max = 1;       ///< A writer makes no more calls; its last call may have happened or not.
  int lost_replies_max = 0;  ///< A change happens, and its writer gets `unavailable`.
  int late_changes_max = 0;  ///< Its writer gets `unavailable`, and the change happens at any later moment, or never.
  /// A list shows nothing of other writers. Where it is not 0, an attempt that begins now must resume from what was
  /// reported even if its lists show nothing at all.
  int stale_lists_max = 0;
  /// How often it may become another writer's turn while the one before could still go on. Few changes of turns show
  /// most faults of a protocol, in far fewer states (Musuvathi and Qadeer 2007, iterative context bounding). Nothing:
  /// any number.
  std::optional<int> preemptions_max{};
  std::map<std::string, std::string> objects{};  ///< The user's files, which lie under the prefix before.
  std::uint64_t states_max = 50'000'000;         ///< A bound on the exploration; to reach it is a failure.
};

struct Findings {
  /// Different ones, of the objects, the writers, what is still to happen and what has been reported. Two histories of
  /// a writer that leave it with the same memory are one state of it.
  std::uint64_t states = 0;
  std::uint64_t transitions = 0;  ///< Calls and faults from one state to another.
  std::uint64_t reports = 0;      ///< Transitions in which a save was reported.
  std::size_t depth_max = 0;      ///< Transitions from the beginning to the farthest state.
  std::string violation;          ///< The first violated invariant, and the transitions that led there; empty: none.
};

/// Visits every state that the writers can reach under `scenario`, in every order of their calls, and checks in each:
///   1. a reported checkpoint stays loadable until a newer one is reported: an attempt that begins now resumes from its
///      step or a later one, and gets the bytes of that step;
///   2. no writer removes or replaces a user's file, or what another job or a later generation wrote;
///   3. no attempt resumes, and no writer reports, a step that an older generation wrote beyond the step from which a
///      later one resumed.
/// Without conditional create, reading an object and putting it right afterwards is one transition.
[[nodiscard]] Findings explore(const Scenario& scenario);

}  // namespace trainyard::checkpoint::exploration
