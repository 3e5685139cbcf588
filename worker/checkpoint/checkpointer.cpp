#include "worker/checkpoint/checkpointer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <utility>

#include "worker/checkpoint/core/agreement.hpp"
#include "worker/checkpoint/core/place.hpp"
#include "worker/checkpoint/core/store_options.hpp"
#include "worker/checkpoint/host_state.hpp"
#include "worker/checkpoint/staging.hpp"
#include "worker/dist/torch_error.hpp"

namespace trainyard::checkpoint {
namespace {

Keep keep_of(const resource::KeepSpec& spec) {
  Keep keep{.last = spec.last, .every_steps = spec.every.steps, .every_epochs = spec.every.epochs, .best = {}};
  if (spec.best) {
    keep.best = KeepBest{.metric = spec.best->metric,
                         .is_highest = spec.best->mode == resource::BestMode::max,
                         .count = spec.best->count};
  }
  return keep;
}

/// nullptr where the spec names none.
Result<std::unique_ptr<storage::Store>> open_origin(const resource::CheckpointSpec& spec) {
  if (spec.resume_uri.empty()) return nullptr;
  return storage::open_store(parse_place(spec.resume_uri).prefix_uri, options_of(spec.s3));
}

std::optional<Origin> origin_of(storage::Store* store, const resource::CheckpointSpec& spec) {
  if (store == nullptr) return std::nullopt;
  return Origin{.store = *store, .id = parse_place(spec.resume_uri).id};
}

RunContext context_of(storage::Store& store, storage::Store* origin, const resource::CheckpointSpec& spec,
                      const Identity& identity, dist::Communicator& communicator, const Clock& clock) {
  return {.store = store,
          .communicator = communicator,
          .clock = clock,
          .identity = identity,
          .keep = keep_of(spec.keep),
          .resumes_others = spec.resume == resource::ResumeMode::automatic,
          .origin = origin_of(origin, spec)};
}

// What one rank cannot do with its own tensors must not leave the others waiting in the steps that follow.
Result<void> all_have(dist::Communicator& communicator, const Result<HostState>& host) {
  return agree(communicator, host.map([](const HostState&) {}));
}

class StoreCheckpointer final : public Checkpointer {
 public:
  StoreCheckpointer(std::unique_ptr<storage::Store> store, std::unique_ptr<storage::Store> origin,
                    const resource::CheckpointSpec& spec, const Identity& identity, dist::Communicator& communicator,
                    const Clock& clock)
      : store_(std::move(store)),
        origin_(std::move(origin)),
        communicator_(communicator),
        clock_(clock),
        run_(context_of(*store_, origin_.get(), spec, identity, communicator, clock)),
        staging_(communicator.rank(), communicator.world_size()) {}

  Result<std::optional<Restored>> restore(State& state) override {
    const auto host = HostState::of(state);
    if (auto ready = all_have(communicator_, host); !ready) return tl::unexpected(ready.error());
    auto restored = run_.restore(host->entries());
    if (!restored || !*restored) return restored;
    if (auto copied = agree(communicator_, host->copy_to(state)); !copied) return tl::unexpected(copied.error());
    return restored;
  }

  [[nodiscard]] std::int64_t generation() const override { return run_.generation(); }

  void begin_save(const State& state, std::int64_t step, const SaveOptions& options) override {
    const Instant begun = clock_.instant();
    const auto staged = staging_.copy(state);
    auto copied = std::make_shared<std::promise<void>>();
    copied_ = copied->get_future();
    writer_.start([this, begun, step, options, values = state.values, staged, copied] {
      const auto is_whole = staged.and_then([this] { return staging_.copy_steady(); });
      copied->set_value();
      SaveOutcome outcome = write(is_whole, values, step, options);
      outcome.duration = clock_.instant() - begun;
      return outcome;
    });
  }

  void finish_copy() override {
    if (copied_.valid()) copied_.get();
  }

  [[nodiscard]] bool is_saving() const override { return writer_.is_busy(); }

  std::optional<SaveOutcome> take_outcome(std::chrono::milliseconds patience) override {
    return writer_.take_outcome(patience);
  }

  Result<void> end() override { return run_.end(); }

 private:
  // On the writer's thread.
  SaveOutcome write(const Result<bool>& is_whole, const nlohmann::json& values, std::int64_t step,
                    const SaveOptions& options) {
    SaveOutcome outcome{.step = step, .saved = std::nullopt, .left_out = {}};
    try {
      const auto objections = gather_all(communicator_, objection(is_whole, options));
      if (!objections) {
        outcome.saved = tl::unexpected(objections.error());
        return outcome;
      }
      const auto first = std::ranges::find_if(*objections, [](const nlohmann::json& one) { return one != ""; });
      if (first != objections->end()) {
        outcome.left_out = *first;
      } else {
        outcome.saved = run_.save(staging_.entries(), values, step, options.is_complete);
      }
    } catch (const std::exception& error) {
      outcome.saved = fail(ErrorKind::internal, fmt::format("saving step {}: {}", step, dist::message_of(error)));
    }
    return outcome;
  }

  // What this rank has against saving what is staged; empty when nothing.
  [[nodiscard]] Result<nlohmann::json> objection(const Result<bool>& is_whole, const SaveOptions& options) const {
    return is_whole.map([&](bool is_as_it_was) -> nlohmann::json {
      if (!is_as_it_was) return "parameters or optimizer state were changed outside the optimizer's step";
      if (options.is_complete || (options.is_sound && staging_.is_finite())) return "";
      return "loss or parameters are not finite";
    });
  }

  std::unique_ptr<storage::Store> store_;
  std::unique_ptr<storage::Store> origin_;  // nullptr: none.
  dist::Communicator& communicator_;
  const Clock& clock_;
  // Of the training thread and of the writer's in turn: while that one is busy they are its own.
  Run run_;
  Staging staging_;
  std::future<void> copied_;  // Of the save that was begun last, until that was waited for.
  Writer writer_;             // The last: its thread ends before what it uses.
};

}  // namespace

Result<std::unique_ptr<storage::Store>> open_place(const resource::CheckpointSpec& spec) {
  return storage::open_store(spec.uri, options_of(spec.s3));
}

Result<std::unique_ptr<Checkpointer>> open_checkpointer(const resource::CheckpointSpec& spec, const Identity& identity,
                                                        dist::Communicator& communicator, const Clock& clock) {
  auto store = open_place(spec);
  if (auto opened = agree(communicator, store.map([](const auto&) {})); !opened) return tl::unexpected(opened.error());
  return open_checkpointer(std::move(*store), spec, identity, communicator, clock);
}

Result<std::unique_ptr<Checkpointer>> open_checkpointer(std::unique_ptr<storage::Store> store,
                                                        const resource::CheckpointSpec& spec, const Identity& identity,
                                                        dist::Communicator& communicator, const Clock& clock) {
  auto origin = open_origin(spec);
  const auto probed = agree(communicator, origin.map([](const auto&) {}).and_then([&] { return store->probe(); }));
  if (!probed) return tl::unexpected(probed.error());
  return std::make_unique<StoreCheckpointer>(std::move(store), std::move(*origin), spec, identity, communicator, clock);
}

}  // namespace trainyard::checkpoint
