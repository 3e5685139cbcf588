#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"
#include "include/trainyard/module.hpp"
#include "include/trainyard/process_set.hpp"
#include "worker/dist/group.hpp"
#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::train {

inline constexpr std::size_t process_sets_max = 64;

/// The ranks of each set, by its name, as Module::configure_process_sets() returns them.
using RanksBySet = std::map<std::string, std::vector<std::int64_t>>;

/// Refuses as invalid: more than process_sets_max sets, a name that is no name of a metric (observe::check_name), a set
/// without ranks, a rank outside [0, `world_size`), and a rank twice in a set. The message says what was given and what
/// is allowed. Pure.
[[nodiscard]] Result<void> check_process_sets(const RanksBySet& sets, std::int64_t world_size);

/// The sets as text, for the other ranks. The order of a set's ranks does not matter.
[[nodiscard]] std::string to_text(const RanksBySet& sets);

/// Refuses as invalid sets that differ between ranks. `texts`: to_text() of each rank's sets, by rank. The message
/// names rank 0, the first rank that differs and the first such set. Pure.
[[nodiscard]] Result<void> compare_process_sets(std::span<const std::string> texts);

/// The process sets of a job, as one rank has them.
class ProcessSets {
 public:
  /// Throws std::invalid_argument, naming the sets that there are, for another name.
  [[nodiscard]] const ProcessSet& at(std::string_view name) const;
  void add(std::string name, std::unique_ptr<const ProcessSet> set) { sets_.emplace(std::move(name), std::move(set)); }

 private:
  std::map<std::string, std::unique_ptr<const ProcessSet>, std::less<>> sets_;
};

/// Asks `module` for its sets, and connects the ranks of each. `wait`: for the collectives of the sets. It is
/// collective over the group. Errors: cancelled, unavailable and timeout, of the group; those of
/// dist::Group::connect_ranks. Throws InvalidJob, on all ranks alike, for sets that differ between ranks or that
/// check_process_sets() refuses, and what the module throws.
[[nodiscard]] Result<ProcessSets> connect_process_sets(Module& module, const dist::Group& group,
                                                       const strategy::WaitForWork& wait);

}  // namespace trainyard::train
