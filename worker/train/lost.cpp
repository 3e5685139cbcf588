#include "worker/train/lost.hpp"

#include <chrono>
#include <thread>

namespace trainyard::train {
namespace {

using namespace std::chrono_literals;

constexpr auto culprit_look_interval = 20ms;
constexpr int culprit_looks_max = 100;

}  // namespace

tl::unexpected<rank::RankEnd> lost(const rank::RankLink& link, Stage stage, const Error& error) {
  const bool may_be_a_peer = stage == Stage::step || is_transient(error.kind) || error.kind == ErrorKind::cancelled;
  if (!may_be_a_peer) return end_rank(stage, error);
  // In a save a lost peer looks like a storage failure until the launchers have exchanged which rank died.
  const bool is_storage = stage == Stage::checkpoint || stage == Stage::save;
  for (int look = 0; is_storage && look < culprit_looks_max && !link.group_failure(); ++look) {
    std::this_thread::sleep_for(culprit_look_interval);
  }
  if (auto failure = link.group_failure()) return tl::unexpected(*failure);
  return end_rank(stage, error);
}

}  // namespace trainyard::train
