#include "checkpoint/run/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "checkpoint/run/superseded.hpp"

namespace trainyard::checkpoint {

std::string rejection_of(const Copy& copy, std::span<const Claim> claims, const Identity& resumer) {
  if (!is_same_life(copy.identity, resumer)) return "another job wrote it";
  if (copy.identity.fingerprint != resumer.fingerprint) return "it was saved with another model or other data";
  const auto claim = std::ranges::find(claims, copy.id.generation, &Claim::generation);
  if (claim == claims.end() || claim->nonce.empty() || !copy.nonce.starts_with(claim->nonce + "-"))
    return "its run never wrote to checkpoint.uri";
  if (const std::int64_t last = last_current_step(copy.id.generation, claims); copy.id.step > last) {
    return last < 0 ? std::string{"a later run began afresh"} : fmt::format("a later run resumed from step {}", last);
  }
  return {};
}

std::vector<Candidate> order_candidates(std::span<const CheckpointId> remote, const CopiesByKeeper& copies,
                                        std::span<const Claim> claims, const Identity& resumer) {
  std::vector<Candidate> found;
  for (const CheckpointId& id : remote) found.push_back({.id = id, .nonce = {}, .keepers = {}});
  std::map<std::pair<CheckpointId, std::string>, std::vector<std::int64_t>> saves;
  for (const auto& [keeper, held] : copies) {
    for (const Copy& copy : held) {
      if (rejection_of(copy, claims, resumer).empty()) saves[{copy.id, copy.nonce}].push_back(keeper);
    }
  }
  for (const auto& [save, keepers] : saves)
    found.push_back({.id = save.first, .nonce = save.second, .keepers = keepers});
  std::ranges::sort(found, [](const Candidate& a, const Candidate& b) {
    return std::tie(a.id, a.nonce) < std::tie(b.id, b.nonce);  // The remote one has no nonce, and so is the least.
  });
  return found;
}

}  // namespace trainyard::checkpoint
