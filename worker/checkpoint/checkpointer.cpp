#include "worker/checkpoint/checkpointer.hpp"

#include <utility>

#include "worker/checkpoint/core/agreement.hpp"
#include "worker/checkpoint/host_state.hpp"

namespace trainyard::checkpoint {
namespace {

RunContext context_of(storage::Store& store, const resource::CheckpointSpec& spec, const Identity& identity,
                      dist::Communicator& communicator, const Clock& clock) {
  return {.store = store,
          .communicator = communicator,
          .clock = clock,
          .identity = identity,
          .keep_last = spec.keep_last,
          .resumes_others = spec.resume == resource::ResumeMode::automatic};
}

// What one rank cannot do with its own tensors must not leave the others waiting in the steps that follow.
Result<void> all_have(dist::Communicator& communicator, const Result<HostState>& host) {
  return agree(communicator, host.map([](const HostState&) {}));
}

class StoreCheckpointer final : public Checkpointer {
 public:
  StoreCheckpointer(std::unique_ptr<storage::Store> store, const resource::CheckpointSpec& spec,
                    const Identity& identity, dist::Communicator& communicator, const Clock& clock)
      : store_(std::move(store)),
        communicator_(communicator),
        run_(context_of(*store_, spec, identity, communicator, clock)) {}

  Result<std::optional<Restored>> restore(State& state) override {
    const auto host = HostState::copy_of(state);
    if (auto ready = all_have(communicator_, host); !ready) return tl::unexpected(ready.error());
    auto restored = run_.restore(host->entries());
    if (!restored || !*restored) return restored;
    if (auto copied = agree(communicator_, host->copy_to(state)); !copied) return tl::unexpected(copied.error());
    return restored;
  }

  Result<Saved> save(const State& state, std::int64_t step, bool is_complete) override {
    const auto host = HostState::view_of(state);
    if (auto ready = all_have(communicator_, host); !ready) return tl::unexpected(ready.error());
    return run_.save(host->entries(), state.values, step, is_complete);
  }

  Result<void> end() override { return run_.end(); }

 private:
  std::unique_ptr<storage::Store> store_;
  dist::Communicator& communicator_;
  Run run_;
};

}  // namespace

Result<std::unique_ptr<Checkpointer>> open_checkpointer(const resource::CheckpointSpec& spec, const Identity& identity,
                                                        dist::Communicator& communicator, const Clock& clock) {
  auto store = storage::open_store(
      spec.uri, {.endpoint = spec.s3.endpoint, .region = spec.s3.region, .path_style = spec.s3.path_style});
  if (auto opened = agree(communicator, store.map([](const auto&) {})); !opened) return tl::unexpected(opened.error());
  return open_checkpointer(std::move(*store), spec, identity, communicator, clock);
}

Result<std::unique_ptr<Checkpointer>> open_checkpointer(std::unique_ptr<storage::Store> store,
                                                        const resource::CheckpointSpec& spec, const Identity& identity,
                                                        dist::Communicator& communicator, const Clock& clock) {
  if (auto probed = agree(communicator, store->probe()); !probed) return tl::unexpected(probed.error());
  return std::make_unique<StoreCheckpointer>(std::move(store), spec, identity, communicator, clock);
}

}  // namespace trainyard::checkpoint
