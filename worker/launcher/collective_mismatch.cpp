#include "worker/launcher/collective_mismatch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "api/contract.hpp"
#include "worker/rank/collective_name.hpp"

namespace trainyard::launcher {
namespace {

/// The launcher's loop looks ten times a second.
constexpr auto look_gap_max = std::chrono::seconds{2};

/// A sentence with more of them is not read.
constexpr std::size_t named_max = 4;

std::string wait_text(const LongWait& wait) {
  if (wait.ranks == 1) return fmt::format("rank {} in {}", wait.first_rank, wait.collective);
  return fmt::format("{} ranks (the first is {}) in {}", wait.ranks, wait.first_rank, wait.collective);
}

}  // namespace

void add_rank(std::vector<LongWait>& waits, std::int64_t rank, const std::string& collective) {
  const auto same =
      std::find_if(waits.begin(), waits.end(), [&](const LongWait& wait) { return wait.collective == collective; });
  if (same != waits.end()) {
    ++same->ranks;
  } else if (waits.size() == long_waits_max) {
    ++waits.back().ranks;
  } else {
    waits.push_back({.collective = collective, .ranks = 1, .first_rank = rank});
  }
}

std::optional<GroupFailure> mismatch_of(const std::vector<LongWait>& waits, std::int64_t world_size) {
  std::map<std::string, LongWait> by_collective;
  std::int64_t waiting = 0;
  for (const LongWait& wait : waits) {
    if (wait.ranks < 1 || wait.ranks > world_size) return std::nullopt;  // Another launcher's word is not trusted.
    waiting += wait.ranks;
    const auto [found, is_new] = by_collective.try_emplace(wait.collective, wait);
    if (is_new) continue;
    found->second.ranks += wait.ranks;
    found->second.first_rank = std::min(found->second.first_rank, wait.first_rank);
  }
  if (waiting != world_size || by_collective.size() < 2) return std::nullopt;
  for (const auto& [collective, wait] : by_collective) {
    // All members of a process set have come: their exchange takes long, and the other ranks wait for them.
    if (rank::ranks_of_set_collective(collective) == wait.ranks) return std::nullopt;
  }
  std::vector<LongWait> ordered;
  for (const auto& [collective, wait] : by_collective) ordered.push_back(wait);
  std::sort(ordered.begin(), ordered.end(),
            [](const LongWait& a, const LongWait& b) { return a.first_rank < b.first_rank; });
  std::string text;
  for (std::size_t i = 0; i < std::min(ordered.size(), named_max); ++i)
    text += (i == 0 ? "" : ", ") + wait_text(ordered[i]);
  if (ordered.size() > named_max) text += fmt::format(", and in {} more", ordered.size() - named_max);
  return GroupFailure{.culprit = {},
                      .exit_code = contract::exit_hang,
                      .reason = "CollectiveMismatch",
                      .message = fmt::format(
                          "all ranks wait for each other in different collectives: {}. Every rank must call the "
                          "same collectives in the same order: look for one that only some ranks call, such as "
                          "all_gather() or log() under a condition. Rarely the network between two of them is broken",
                          text)};
}

std::optional<GroupFailure> MismatchWatch::look(std::optional<GroupFailure> mismatch, Instant now,
                                                std::chrono::milliseconds deadline) {
  const bool has_slept = now - std::exchange(looked_, now) > look_gap_max;
  if (!mismatch || has_slept) since_.reset();
  if (!mismatch) return std::nullopt;
  if (!since_) since_ = now;
  if (now - *since_ < deadline) return std::nullopt;
  return mismatch;
}

}  // namespace trainyard::launcher
