#include "worker/checkpoint/checkpointer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <stop_token>
#include <utility>

#include "checkpoint/format/layout.hpp"
#include "checkpoint/run/agreement.hpp"
#include "checkpoint/run/liveness.hpp"
#include "checkpoint/run/local_folder.hpp"
#include "checkpoint/run/local_tier.hpp"
#include "checkpoint/run/store_options.hpp"
#include "checkpoint/run/sweeper.hpp"
#include "common/logging.hpp"
#include "common/try.hpp"
#include "storage/file_store.hpp"
#include "worker/checkpoint/host_state.hpp"
#include "worker/checkpoint/staging.hpp"
#include "worker/dist/torch_error.hpp"

namespace trainyard::checkpoint {
namespace {

Keep keep_of(const api::KeepSpec& spec) {
  Keep keep{.last = spec.last, .every_steps = spec.every.steps, .every_epochs = spec.every.epochs, .best = {}};
  if (spec.best) {
    keep.best = KeepBest{
        .metric = spec.best->metric, .is_highest = spec.best->mode == api::BestMode::max, .count = spec.best->count};
  }
  return keep;
}

/// nullptr if the spec has no `resume_uri`.
Result<std::unique_ptr<storage::Store>> open_origin(const api::CheckpointSpec& spec) {
  if (spec.resume_uri.empty()) return nullptr;
  return storage::open_store(parse_place(spec.resume_uri).prefix_uri, options_of(spec.s3));
}

std::optional<Origin> origin_of(storage::Store* store, const api::CheckpointSpec& spec) {
  if (store == nullptr) return std::nullopt;
  return Origin{.store = *store, .id = parse_place(spec.resume_uri).id};
}

// This rank's part of the RunContext.
struct Start {
  StartPatience patience;
  bool is_first_here = true;
  dist::DeviceMemoryGauge* device_memory = nullptr;
};

RunContext context_of(storage::Store& store, storage::Store* origin, LocalTier* local, const api::CheckpointSpec& spec,
                      const Identity& identity, Communicator& communicator, const Clock& clock, Start start) {
  return {.store = store,
          .communicator = communicator,
          .clock = clock,
          .identity = identity,
          .keep = keep_of(spec.keep),
          .resumes_others = spec.resume == api::ResumeMode::automatic,
          .origin = origin_of(origin, spec),
          .local = local,
          .process = identity.job_uid.empty() ? this_process() : "",
          .patience = std::move(start.patience),
          .is_first_here = start.is_first_here};
}

// True when this rank checks the store itself. A near folder may be a different one in each pod, and is quick to check,
// so every rank does. A bucket is the same for all ranks of a node, so the node's first rank does.
Result<bool> is_first_here(const storage::Store& store, Communicator& communicator, const std::string& node) {
  const auto names = communicator.all_gather(node);
  if (!names) return fail(ErrorKind::cancelled, names.error().message);
  const auto rank = static_cast<std::size_t>(communicator.rank());
  return store.is_cached_on_node() || keepers_of(*names)[rank] == communicator.rank();
}

Result<void> probe_together(storage::Store& store, Communicator& communicator, const Clock& clock,
                            const StartPatience& patience) {
  const bool is_asked = communicator.rank() == 0 || store.is_cached_on_node();
  Result<void> mine;
  if (is_asked) mine = ask_patiently(patience, clock, StartCall::probe, [&] { return store.probe(); });
  const auto probed = agree(communicator, mine);
  if (probed) return probed;
  // Every rank probes, to tell whether the whole job is denied access or only one node.
  return agree(communicator, is_asked ? mine : store.probe());
}

/// The local tier of one job, and its folder on this node.
class LocalCopies {
 public:
  /// Collective; nullptr if the spec has no local tier.
  static Result<std::unique_ptr<LocalCopies>> open(const api::CheckpointSpec& spec, const Identity& identity,
                                                   Communicator& communicator, const Clock& clock,
                                                   const std::string& node) {
    if (!spec.local) return nullptr;
    const auto folder = TRY(local_folder(spec.local->path, identity));
    auto tier = TRY(LocalTier::join(communicator, std::make_unique<storage::FileStore>(open_local_store(folder)), node,
                                    spec.local->keep));
    auto copies = std::make_unique<LocalCopies>(std::move(tier), spec.local->path, identity);
    if (!copies->tier.is_keeper()) return copies;
    remove_old_local_folders(spec.local->path, identity, clock.now());
    if (auto marked = copies->mark(); !marked) {
      logging::warn("the folder of local checkpoints cannot be written; each save tries again",
                    {{"rank", communicator.rank()}, {"error", marked.error().message}});
    }
    return copies;
  }

  LocalCopies(LocalTier joined, std::string path, Identity identity)
      : tier{std::move(joined)}, path_{std::move(path)}, identity_{std::move(identity)} {}

  /// Marks the folder with its owner, unless it is marked already.
  Result<void> mark() {
    if (!tier.is_keeper() || is_marked_) return {};
    auto marked = mark_local_folder(path_, identity_);
    is_marked_ = marked.has_value();
    return marked;
  }

  void remove() {
    if (tier.is_keeper()) remove_local_folder(path_, identity_);
  }

  LocalTier tier;

 private:
  std::string path_;
  Identity identity_;
  bool is_marked_ = false;
};

// If one rank fails on its own tensors, the other ranks must not wait for it in later calls.
Result<void> all_have(Communicator& communicator, const Result<HostState>& host) {
  return agree(communicator, host.map([](const HostState&) {}));
}

/// How long a final run waits at its end for the removal of old checkpoints.
constexpr std::chrono::seconds last_sweep_timeout{20};

class StoreCheckpointer final : public Checkpointer {
 public:
  StoreCheckpointer(std::unique_ptr<storage::Store> store, std::unique_ptr<storage::Store> origin,
                    std::unique_ptr<LocalCopies> copies, const api::CheckpointSpec& spec, const Identity& identity,
                    Communicator& communicator, const Clock& clock, Start start)
      : store_{std::move(store)},
        origin_{std::move(origin)},
        copies_{std::move(copies)},
        communicator_{communicator},
        clock_{clock},
        is_by_hand_{identity.job_uid.empty()},
        run_{context_of(*store_, origin_.get(), copies_ ? &copies_->tier : nullptr, spec, identity, communicator, clock,
                        std::move(start))},
        staging_{communicator.rank(), communicator.world_size(),
                 copies_ && copies_->tier.is_keeper() ? StagedPart::whole : StagedPart::share, start.device_memory} {}

  Result<std::optional<Restored>> restore(State& state) override {
    const auto host = HostState::of(state);
    TRY(all_have(communicator_, host));
    auto restored = run_.restore(host->entries());
    if (restored && is_by_hand_ && communicator_.rank() == 0) signs_.emplace(*store_, clock_, run_.generation());
    if (!restored || !*restored) return restored;
    const auto copied = host->copy_to(state);
    if (const auto agreed = agree(communicator_, copied); !agreed)
      return tl::unexpected(copied ? as_seen_by_others(agreed.error(), "restore") : copied.error());
    return restored;
  }

  [[nodiscard]] std::int64_t generation() const override { return run_.generation(); }

  void begin_save(const State& state, std::int64_t step, const SaveOptions& options) override {
    const Instant begun = clock_.instant();
    is_final_ = options.is_final;
    const auto staged = staging_.stage(state, options.may_copy_on_device);
    const auto device_copy = staged ? staging_.device_copy() : std::nullopt;
    if (device_copy) note(*device_copy);
    auto staging_done = std::make_shared<std::promise<void>>();
    staging_done_ = staging_done->get_future();
    save_thread_.start([this, begun, step, options, values = state.values, staged, device_copy, staging_done] {
      auto is_whole = staged.and_then([this] { return staging_.stage_steady(); });
      staging_done->set_value();
      is_whole = is_whole.and_then(
          [this](bool is_as_it_was) { return staging_.fetch_copies().map([is_as_it_was] { return is_as_it_was; }); });
      SaveOutcome outcome{.step = step, .saved = std::nullopt, .is_copies_only = options.is_copies_only};
      if (device_copy) outcome.is_copied_on_device = device_copy->is_made;
      write(is_whole, values, options, begun, outcome);
      outcome.duration = clock_.instant() - begun;
      return outcome;
    });
  }

  void finish_staging() override {
    if (staging_done_.valid()) staging_done_.get();
  }

  [[nodiscard]] bool is_saving() const override { return save_thread_.is_busy(); }

  [[nodiscard]] std::string trouble() const override { return is_saving() ? store_->trouble() : std::string{}; }

  std::optional<SaveOutcome> take_outcome(std::chrono::milliseconds timeout) override {
    return save_thread_.take_outcome(timeout);
  }

  Result<void> end(const std::function<bool()>& is_stop_asked) override {
    if (is_final_ && !finish_sweep(is_stop_asked)) {
      logging::warn("old checkpoints are left: their removal takes too long, or the rank was asked to stop",
                    {{"secondsAtMost", last_sweep_timeout.count()}});
    }
    sweeper_.give_up();
    signs_.reset();
    return run_.end();
  }

  void remove_copies() override {
    if (copies_) copies_->remove();
  }

 private:
  /// Waits for the removal of older checkpoints. False when it is not over in time, or the rank is asked to stop.
  bool finish_sweep(const std::function<bool()>& is_stop_asked) {
    constexpr std::chrono::milliseconds look_interval{100};
    for (std::chrono::milliseconds waited{0}; waited < last_sweep_timeout; waited += look_interval) {
      if (sweeper_.finish(look_interval)) return true;
      if (is_stop_asked()) return false;
    }
    return false;
  }
  void note(const DeviceCopy& copy) {
    const bool is_first = device_copies_.with_copy() + device_copies_.without_copy() == 0;
    const bool has_changed = device_copies_.add(copy);
    // Rank 0 says what holds for most ranks. Another rank's device may have less room.
    if (!has_changed || (is_first && copy.is_made && communicator_.rank() != 0)) return;
    const logging::Fields fields{{"rank", communicator_.rank()},
                                 {"neededBytes", copy.needed_bytes},
                                 {"roomBytes", copy.room_bytes},
                                 {"savesWithCopy", device_copies_.with_copy()},
                                 {"savesWithoutCopy", device_copies_.without_copy()}};
    if (copy.is_made) return logging::info("the device has room for a copy of the state: saves stall no step", fields);
    logging::warn("the device has no room for a copy of the state: each save stalls a step", fields);
  }

  // Runs on the writer's thread.
  void write(const Result<bool>& is_whole, const nlohmann::json& values, const SaveOptions& options, Instant begun,
             SaveOutcome& outcome) {
    try {
      const auto objections = gather_all(communicator_, objection(is_whole, options));
      if (!objections) {
        outcome.saved = tl::unexpected(is_whole ? as_seen_by_others(objections.error(), "save") : objections.error());
        return;
      }
      const auto first = std::ranges::find_if(*objections, [](const nlohmann::json& one) { return one != ""; });
      if (first != objections->end()) {
        outcome.left_out = *first;
        return;
      }
      // The copies come first: they are quick, and remain if the run ends during the remote save.
      if (copies_ && !options.is_final) {
        const auto failures = make_copies(values, outcome.step);
        if (!failures) {
          outcome.saved = tl::unexpected(failures.error());
          return;
        }
        outcome.copies = CopiesOutcome{.error = *failures, .duration = clock_.instant() - begun};
      }
      if (options.is_copies_only) return;
      outcome.saved = run_.save(staging_.entries(), values, outcome.step, options.is_final);
      if (outcome.saved && communicator_.rank() == 0) sweeper_.start();
    } catch (const std::exception& error) {
      outcome.saved =
          fail(ErrorKind::internal, fmt::format("saving step {}: {}", outcome.step, dist::message_of(error)));
    }
  }

  // The failure of another rank. Its device failed alone: the ranks that are whole have lost a peer, and their own
  // nodes must not be avoided for it.
  static Error as_seen_by_others(Error error, std::string_view tried) {
    if (dist::failed_part_of_text(error.message) != dist::FailedPart::device) return error;
    return {ErrorKind::cancelled, fmt::format("another rank cannot {}: {}", tried, error.message)};
  }

  Result<std::string> make_copies(const nlohmann::json& values, std::int64_t step) {
    static_cast<void>(copies_->mark());  // If this fails, the copy fails too, with the error.
    return run_.save_copies(staging_.entries(), values, step);
  }

  // Why this rank's staged state must be left out; empty if it need not be.
  [[nodiscard]] Result<nlohmann::json> objection(const Result<bool>& is_whole, const SaveOptions& options) const {
    return is_whole.map([&](bool is_as_it_was) -> nlohmann::json {
      if (!is_as_it_was) return "parameters or optimizer state were changed outside the optimizer's step";
      if (options.is_final || (options.is_sound && staging_.is_finite())) return "";
      return "loss or parameters are not finite";
    });
  }

  std::unique_ptr<storage::Store> store_;
  std::unique_ptr<storage::Store> origin_;  // nullptr: none.
  std::unique_ptr<LocalCopies> copies_;     // nullptr: none.
  Communicator& communicator_;
  const Clock& clock_;
  const bool is_by_hand_;
  bool is_final_ = false;  // The last begun save is of a final state.
  DeviceCopyCount device_copies_;
  // While the writer is busy, only its thread uses these members; otherwise only the training thread does. Retention
  // runs only on the sweeper's thread.
  Run run_;
  Staging staging_;
  std::future<void> staging_done_;    // Ready once the last begun save is staged; empty once that was waited for.
  std::optional<SignsOfLife> signs_;  // Rank 0 of a run by hand has them, from its claim to its end.
  Sweeper sweeper_{[this](const std::stop_token& stop) { run_.tidy_up(stop); }};
  SaveThread save_thread_;  // The last member: its thread ends before what it uses.
};

}  // namespace

Result<std::unique_ptr<storage::Store>> open_place(const api::CheckpointSpec& spec) {
  return storage::open_store(spec.uri, options_of(spec.s3));
}

Result<std::unique_ptr<Checkpointer>> open_checkpointer(const api::CheckpointSpec& spec, const Identity& identity,
                                                        Communicator& communicator, const Clock& clock,
                                                        const StartOptions& options) {
  auto store = open_place(spec);
  TRY(agree(communicator, store.map([](const auto&) {})));
  return open_checkpointer(std::move(*store), spec, identity, communicator, clock, options);
}

Result<std::unique_ptr<Checkpointer>> open_checkpointer(std::unique_ptr<storage::Store> store,
                                                        const api::CheckpointSpec& spec, const Identity& identity,
                                                        Communicator& communicator, const Clock& clock,
                                                        const StartOptions& options) {
  auto origin = open_origin(spec);
  TRY(agree(communicator, origin.map([](const auto&) {})));
  TRY(probe_together(*store, communicator, clock, options.patience));
  const auto is_first = TRY(is_first_here(*store, communicator, options.node));
  auto copies = TRY(LocalCopies::open(spec, identity, communicator, clock, options.node));
  return std::make_unique<StoreCheckpointer>(
      std::move(store), std::move(*origin), std::move(copies), spec, identity, communicator, clock,
      Start{.patience = options.patience, .is_first_here = is_first, .device_memory = options.device_memory});
}

}  // namespace trainyard::checkpoint
