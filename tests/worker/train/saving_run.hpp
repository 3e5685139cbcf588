#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/gate.hpp"
#include "tests/fakes/memory_store.hpp"
#include "tests/worker/train/training_run.hpp"

namespace trainyard::train {

using Steps = std::set<std::int64_t>;

/// A run of `max_steps` steps that saves every second step in memory. on_put() changes how its stores behave.
class SavingRun {
 public:
  explicit SavingRun(std::int64_t world_size, std::int64_t max_steps, api::WhenBusy when_busy = api::WhenBusy::skip)
      : run{world_size} {
    run.training.max_steps = max_steps;
    run.checkpoint.emplace();
    run.checkpoint->uri = "memory://";
    run.checkpoint->every.steps = 2;
    run.checkpoint->when_busy = when_busy;
    run.open_store = [this](std::int64_t rank) {
      auto store = std::make_unique<fakes::FaultyStore>(
          std::make_unique<fakes::MemoryStore>(objects),
          [this, rank](std::string_view call, std::string_view key, storage::Pieces) -> std::optional<Error> {
            return call == "put" && on_put_ ? on_put_(rank, key) : std::nullopt;
          });
      store->trouble_of = trouble_of;
      return store;
    };
  }

  void on_put(std::function<std::optional<Error>(std::int64_t rank, std::string_view key)> hook) {
    on_put_ = std::move(hook);
  }
  /// Snapshots every `steps` steps, with images.
  void make_snapshots(std::int64_t steps) {
    run.training.snapshots.emplace();
    run.training.snapshots->every = {.steps = steps, .epochs = {}, .time = {}};
    for (auto& rank : run.ranks) rank.module->shows_images = true;
    run.open_snapshots = [this] { return run.open_store(0); };
  }
  /// Makes all ranks' puts of the files of step `step` wait at `gate`.
  void hold_up(std::int64_t step, fakes::Gate& gate) {
    on_put([&gate, prefix = fmt::format("step-{}/", step)](std::int64_t, std::string_view key) -> std::optional<Error> {
      if (key.starts_with(prefix)) gate.pass();
      return std::nullopt;
    });
  }
  /// Opens `gate` once a rank reports that it waits at step `step`.
  void open_when_waiting(fakes::Gate& gate, std::int64_t step) {
    for (auto& rank : run.ranks) {
      rank.link->on_report = [&gate, step](const rank::RankProgress& progress) {
        if (progress.phase == "Saving" && progress.step == step) gate.open();
      };
    }
  }
  /// Calls `act` on rank `rank` in the middle of step `step` (from 1).
  void at_step(std::size_t rank, std::int64_t step, std::function<void()> act) {
    run.ranks[rank].module->on_step = [step, act = std::move(act), seen = std::int64_t{0}](std::int64_t) mutable {
      if (++seen == step) act();
    };
  }
  /// The steps whose checkpoints rank `rank` reported.
  [[nodiscard]] Steps saved(std::size_t rank) const {
    Steps steps;
    for (const auto& report : run.ranks[rank].link->reports()) {
      if (report.checkpoint) steps.insert(report.checkpoint->step);
    }
    return steps;
  }

  TrainingRun run;
  fakes::MemoryObjects objects;
  std::function<std::string()> trouble_of;  ///< The stores' trouble() of running calls. Not set: none.

 private:
  std::function<std::optional<Error>(std::int64_t rank, std::string_view key)> on_put_;
};

}  // namespace trainyard::train
