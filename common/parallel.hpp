#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <span>
#include <utility>
#include <vector>

#include "common/result.hpp"

namespace trainyard {

/// At most `count` runs of neighbours, of about as much weight each; none is empty. `weight_of` gives an element's,
/// which is not negative. `count` is at least 1.
template <typename T, typename WeightOf>
[[nodiscard]] std::vector<std::span<const T>> runs_of(std::span<const T> all, std::size_t count,
                                                      const WeightOf& weight_of) {
  std::uint64_t left = 0;
  for (const T& one : all) left += weight_of(one);
  std::vector<std::span<const T>> runs;
  for (; !all.empty(); --count) {
    const std::uint64_t share = count > 1 ? left / count : left;
    std::size_t length = 0;
    for (std::uint64_t weight = 0; length < all.size() && (length == 0 || count == 1 || weight < share); ++length) {
      weight += weight_of(all[length]);
      left -= weight_of(all[length]);
    }
    runs.push_back(all.first(length));
    all = all.subspan(length);
  }
  return runs;
}

/// Does each run by `work`, beside each other as far as threads can be had, the last in this thread. The error is that
/// of the first run, in their order, that failed. `work` takes a run and a std::atomic<bool>, true once any of them has
/// failed: there is no use in going on then.
template <typename T, typename Work>
[[nodiscard]] Result<void> do_beside_each_other(std::span<const std::span<const T>> runs, const Work& work) {
  std::atomic<bool> has_failed{false};
  const auto do_run = [&](std::span<const T> run) {
    Result<void> done = work(run, std::as_const(has_failed));
    if (!done) has_failed = true;
    return done;
  };
  std::vector<std::future<Result<void>>> ends;
  for (const auto& run : runs) {
    const bool is_last = &run == &runs.back();
    const auto policy = is_last ? std::launch::deferred : std::launch::async | std::launch::deferred;
    ends.push_back(std::async(policy, do_run, run));
  }
  if (!ends.empty()) ends.back().wait();
  Result<void> all;
  for (auto& end : ends) {
    if (auto done = end.get(); all && !done) all = std::move(done);
  }
  return all;
}

}  // namespace trainyard
