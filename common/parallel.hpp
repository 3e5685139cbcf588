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

/// Splits `elements` into at most `count` (at least 1) parts of neighbours with about equal weights. No part is empty.
/// `weight_of` returns the weight of an element, which is not negative.
template <typename T, typename WeightOf>
[[nodiscard]] std::vector<std::span<const T>> split_by_weight(std::span<const T> elements, std::size_t count,
                                                              const WeightOf& weight_of) {
  std::uint64_t left = 0;
  for (const T& element : elements) left += weight_of(element);
  std::vector<std::span<const T>> parts;
  for (; !elements.empty(); --count) {
    const std::uint64_t share = count > 1 ? left / count : left;
    std::size_t length = 0;
    for (std::uint64_t weight = 0; length < elements.size() && (length == 0 || count == 1 || weight < share);
         ++length) {
      weight += weight_of(elements[length]);
      left -= weight_of(elements[length]);
    }
    parts.push_back(elements.first(length));
    elements = elements.subspan(length);
  }
  return parts;
}

/// Calls `work` on each of `parts` in parallel, on the last one in this thread. Without new threads the calls run one
/// after another. Returns the error of the first part, in their order, that failed. `work` takes a part and a
/// std::atomic<bool>, which is true once any part failed: `work` may then stop early.
template <typename T, typename Work>
[[nodiscard]] Result<void> parallel_for(std::span<const std::span<const T>> parts, const Work& work) {
  std::atomic<bool> has_failed{false};
  const auto do_part = [&](std::span<const T> part) {
    Result<void> done = work(part, std::as_const(has_failed));
    if (!done) has_failed = true;
    return done;
  };
  std::vector<std::future<Result<void>>> outcomes;
  for (const auto& part : parts) {
    const bool is_last = &part == &parts.back();
    const auto policy = is_last ? std::launch::deferred : std::launch::async | std::launch::deferred;
    outcomes.push_back(std::async(policy, do_part, part));
  }
  if (!outcomes.empty()) outcomes.back().wait();
  Result<void> all;
  for (auto& outcome : outcomes) {
    if (auto done = outcome.get(); all && !done) all = std::move(done);
  }
  return all;
}

}  // namespace trainyard
