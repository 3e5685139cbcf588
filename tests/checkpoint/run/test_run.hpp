#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "checkpoint/run/run.hpp"
#include "tests/checkpoint/run/test_state.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/memory_store.hpp"
#include "tests/fakes/thread_group.hpp"

namespace trainyard::checkpoint {

/// One rank of a run, with what it needs. It is attempt 1 of team/a; a test that needs another one sets members before
/// open().
class TestRun {
 public:
  explicit TestRun(std::unique_ptr<storage::Store> store) : store_{std::move(store)} {}
  explicit TestRun(fakes::MemoryObjects& objects) : store_{std::make_unique<fakes::MemoryStore>(objects)} {}

  Identity identity{.job = "team/a", .job_uid = "uid-a", .attempt = 1, .fingerprint = "fashion"};
  Keep keep{.last = 2, .every_steps = {}, .every_epochs = {}, .best = {}};
  std::int64_t large_rows = 1100;  ///< TestState's.
  std::uint64_t chunk_bytes_max = shard_chunk_bytes_max;
  bool resumes_others = true;
  bool tidies_up = true;
  fakes::FakeClock clock;
  std::optional<Origin> origin;
  LocalTier* local = nullptr;
  std::string process;  ///< Empty: it gives no signs of life.
  StartPatience patience;
  std::function<nlohmann::json(std::int64_t step)> values_of;
  std::function<void(TestState&)> extend;  ///< Adds entries to the state.
  Communicator* communicator = &single_;

  /// Makes it attempt `attempt`.
  TestRun& as_attempt(std::int64_t attempt) {
    identity.attempt = attempt;
    return *this;
  }
  TestRun& as_job(const std::string& name, std::string fingerprint = "fashion") {
    identity = {.job = "team/" + name, .job_uid = "uid-" + name, .attempt = 1, .fingerprint = std::move(fingerprint)};
    return *this;
  }

  Result<std::optional<Restored>> restore() {
    state = make_state(-1);
    run_.emplace(RunContext{.store = *store_,
                            .communicator = *communicator,
                            .clock = clock,
                            .identity = identity,
                            .keep = keep,
                            .chunk_bytes_max = chunk_bytes_max,
                            .resumes_others = resumes_others,
                            .origin = origin,
                            .local = local,
                            .process = process,
                            .patience = patience});
    return run_->restore(state.entries());
  }

  /// Runs retention after a save, unless `tidies_up` is false.
  Result<Saved> save(std::int64_t step, bool is_final = false) {
    state.set(step);
    auto saved =
        run_->save(state.entries(), values_of ? values_of(step) : nlohmann::json{{"epoch", step / 10}}, step, is_final);
    if (saved && tidies_up) tidy_up();
    return saved;
  }
  void tidy_up(const std::stop_token& stop = {}) { run_->tidy_up(stop); }

  Result<std::string> save_copies(std::int64_t step) {
    state.set(step);
    return run_->save_copies(state.entries(), values_of ? values_of(step) : nlohmann::json{{"epoch", step / 10}}, step);
  }

  Result<void> end() { return run_->end(); }

  [[nodiscard]] bool holds_state_after(std::int64_t step) const { return state == make_state(step); }
  [[nodiscard]] TestState make_state(std::int64_t step) const {
    TestState made{communicator->rank(), large_rows};
    if (extend) extend(made);
    made.set(step);
    return made;
  }
  [[nodiscard]] storage::Store& store() { return *store_; }

  TestState state{0, /*large_rows=*/0};

 private:
  SingleCommunicator single_;
  std::unique_ptr<storage::Store> store_;
  std::optional<Run> run_;
};

/// True for a call of a store that reads part of a data file.
inline bool is_data(std::string_view call, std::string_view key) {
  return call == "get_range" && key.ends_with(".safetensors");
}

/// The key of the data file that `rank` wrote for the checkpoint `id`, of whichever save.
inline std::string data_key_in(const fakes::MemoryObjects& objects, const CheckpointId& id, std::int64_t rank) {
  const std::string front = folder_key(id) + "/rank-" + std::to_string(rank);
  const auto found = objects.objects.upper_bound(front);
  EXPECT_TRUE(found != objects.objects.end() && found->first.starts_with(front)) << front;
  return found == objects.objects.end() ? "" : found->first;
}

/// Runs `rank_main` as every rank of a group over `objects`.
inline void on_every_rank(std::int64_t world_size, fakes::MemoryObjects& objects,
                          const std::function<void(TestRun&)>& rank_main) {
  fakes::ThreadGroup group{world_size};
  group.run([&](Communicator& communicator) {
    TestRun run{objects};
    run.communicator = &communicator;
    rank_main(run);
  });
}

}  // namespace trainyard::checkpoint
