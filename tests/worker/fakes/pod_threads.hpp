#pragma once

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/worker/fakes/rank_threads.hpp"
#include "worker/dist/pods.hpp"

namespace trainyard::fakes {

/// The process groups of pods that have `sizes` ranks, on one of the ranks of run_ranks(). All ranks must call.
inline dist::PodGroups make_pods(const RankThread& rank, const std::vector<std::int64_t>& sizes) {
  std::vector<dist::Pod> pods;
  for (std::int64_t first = 0; const std::int64_t size : sizes) {
    pods.push_back({.first_rank = first, .size = size});
    first += size;
  }
  auto groups = dist::make_pod_groups(
      std::move(pods), rank.process_group, [&rank](const std::string& name, std::int64_t number, std::int64_t size) {
        return make_gloo_group(c10::make_intrusive<c10d::PrefixStore>(name, rank.store), number, size);
      });
  // A rank whose body ends at once would close its connections while another one still opens its own.
  std::ignore = rank.communicator->all_gather("connected");
  return groups;
}

}  // namespace trainyard::fakes
