#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/plan/member.hpp"
#include "operator/plan/observed.hpp"

namespace trainyard::plan {

/// Why an attempt is over.
struct AttemptEnd {
  api::Cause cause = api::Cause::application;
  bool is_final = false;             ///< A restart cannot help: exit code 93.
  bool is_charged = true;            ///< Counts against the budget of its cause.
  std::optional<std::int64_t> rank;  ///< The culprit's.
  std::string pod;
  std::string node;
  std::optional<int> exit_code;
  std::string message;
  std::vector<std::string> lost_nodes;  ///< Not to be used by the next attempt.
  bool operator==(const AttemptEnd&) const = default;
};

struct Judgement {
  std::optional<AttemptEnd> end;
  /// Without a loss: when to judge again although nothing changes, because a better witness may still come.
  std::optional<std::chrono::milliseconds> again_in;
  std::vector<std::string> absent_pods;  ///< Pods of the attempt that were there and are no more.
};

/// How long the first-hand report of a death is waited for once ranks say that they lost a peer.
inline constexpr std::chrono::milliseconds witness_wait{2'000};

/// Whether the attempt has lost a member, and whose fault that is. A rank that only says that it lost a peer (exit 90)
/// or was asked to stop (91) is never blamed while another may be: the first other report decides, or `witness_wait`
/// passes.
[[nodiscard]] Judgement judge_members(const Observed& observed, const std::vector<Member>& members, Time now);

}  // namespace trainyard::plan
