#include "worker/train/initial_weights.hpp"

#include <torch/types.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/interchange/entry_names.hpp"
#include "checkpoint/interchange/weights.hpp"
#include "checkpoint/run/agreement.hpp"
#include "common/logging.hpp"
#include "common/try.hpp"
#include "worker/checkpoint/host_state.hpp"
#include "worker/train/named_tensors.hpp"

namespace trainyard::train {
namespace {

Result<nlohmann::json> load_here(const WeightsSource& source, const Module& module, const checkpoint::State& state,
                                 const checkpoint::StartPatience& patience, const Clock& clock) {
  checkpoint::State model;
  std::ranges::copy_if(state.entries, std::back_inserter(model.entries),
                       [](const checkpoint::Entry& entry) { return entry.name.starts_with(checkpoint::model_prefix); });
  std::set<std::string> aliases;
  for (const std::string& name : further_names(module)) aliases.insert(std::string{checkpoint::model_prefix} + name);
  const auto host = TRY(checkpoint::HostState::of(model));
  const auto loaded = checkpoint::ask_patiently(patience, clock, checkpoint::StartCall::state, [&] {
    return checkpoint::load_weights(source.uri, source.s3, host.entries(), aliases, source.sha256);
  });
  if (!loaded) return fail("training.model.weights", loaded.error());
  TRY(host.copy_to(model));
  for (const std::string& reason : loaded->skipped) logging::warn("checkpoint skipped", {{"error", reason}});
  logging::info("weights loaded", {{"uri", loaded->uri}});
  return nlohmann::json(loaded->uri);
}

}  // namespace

Result<void> load_initial_weights(const WeightsSource& source, const Module& module, const checkpoint::State& state,
                                  checkpoint::Communicator& communicator, const checkpoint::StartPatience& patience,
                                  const Clock& clock) {
  Result<nlohmann::json> mine;
  if (communicator.rank() == 0) mine = load_here(source, module, state, patience, clock);
  return checkpoint::broadcast_from_rank0(communicator, mine).map([](const nlohmann::json&) {});
}

}  // namespace trainyard::train
