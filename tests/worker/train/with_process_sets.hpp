#pragma once

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "include/trainyard/options.hpp"
#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "worker/dist/group.hpp"
#include "worker/train/process_set_collectives.hpp"
#include "worker/train/process_sets.hpp"

namespace trainyard::train {

/// A module that only has process sets.
class ModuleOfSets final : public Module {
 public:
  explicit ModuleOfSets(RanksBySet sets) : sets_{std::move(sets)} {}
  [[nodiscard]] StepOutput training_step(const Batch& /*batch*/, std::int64_t /*batch_index*/) override { return {}; }
  [[nodiscard]] RanksBySet configure_process_sets(std::int64_t /*world_size*/) override { return sets_; }

 private:
  RanksBySet sets_;
};

/// The group of a rank of run_ranks(), of which it takes what the rank has.
inline dist::Group group_of(fakes::RankThread& thread) {
  return {.rank = thread.rank,
          .world_size = thread.world_size,
          .store = {},
          .process_group = thread.process_group,
          .pods = {},
          .communicator = std::move(thread.communicator),
          .checkpoint_communicator = {},
          .averaging_reducer = {},
          .connect_ranks = [rank = thread.rank, store = thread.store](
                               const std::string& name,
                               std::span<const std::int64_t> ranks) -> Result<c10::intrusive_ptr<c10d::ProcessGroup>> {
            const std::int64_t number = std::ranges::find(ranks, rank) - ranks.begin();
            return fakes::make_gloo_group(c10::make_intrusive<c10d::PrefixStore>(name, store), number,
                                          static_cast<std::int64_t>(ranks.size()));
          }};
}

/// When a rank of with_process_sets() closes its connections.
enum class Leaving { when_all_are_done, at_once };

/// Runs `body` with the process sets `sets` on each of `world_size` ranks, which are threads.
inline void with_process_sets(std::int64_t world_size, const RanksBySet& sets,
                              const std::function<void(const ProcessSets& sets, std::int64_t rank)>& body,
                              Leaving leaving = Leaving::when_all_are_done) {
  fakes::run_ranks(world_size, [&](fakes::RankThread& thread) {
    const dist::Group group = group_of(thread);
    ModuleOfSets module{sets};
    const auto connected = connect_process_sets(module, group, fakes::plain_wait);
    ASSERT_TRUE(connected) << connected.error().message;
    // A rank whose body ends at once would close its connections while another one still opens its own.
    std::ignore = group.communicator->all_gather("connected");
    body(*connected, thread.rank);
    if (leaving == Leaving::when_all_are_done) std::ignore = group.communicator->all_gather("done");
  });
}

}  // namespace trainyard::train
