#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/claim.hpp"
#include "checkpoint/format/data_file.hpp"
#include "checkpoint/format/manifest.hpp"
#include "checkpoint/format/sealed_json.hpp"
#include "checkpoint/run/fence.hpp"
#include "checkpoint/run/inventory.hpp"
#include "common/clock.hpp"
#include "storage/store.hpp"
#include "tests/checkpoint/run/test_state.hpp"
#include "tests/fakes/memory_store.hpp"

namespace trainyard::checkpoint {

/// 2026-11-21T10:00:00Z
inline constexpr Time test_time{std::chrono::milliseconds{1'795'255'200'000}};

/// A prefix that is filled as the ranks of runs fill it.
class TestPrefix {
 public:
  explicit TestPrefix(std::unique_ptr<storage::Store> store) : store_{std::move(store)} {}

  /// Adds entries to the state that a rank saves.
  std::function<void(TestState& state, std::int64_t rank, std::int64_t world_size)> extend;
  Identity identity{.job = "team/a", .job_uid = "uid-a", .attempt = 1, .fingerprint = "fashion"};
  /// The nonce in the names of the saves' files. Empty: the names of programs before format version 3, with receipts.
  std::string data_nonce;

  TestPrefix& claim(std::int64_t generation, std::optional<CheckpointId> resumed_from = std::nullopt) {
    identity.attempt = generation;
    EXPECT_TRUE(put_claim(*store_, {.generation = generation,
                                    .identity = identity,
                                    .resumed_from = resumed_from,
                                    .time = test_time,
                                    .nonce = std::to_string(generation)}));
    return *this;
  }

  /// The state after `id.step` steps, as `world_size` ranks save it.
  Manifest save(const CheckpointId& id, std::int64_t world_size = 1, bool is_final = false) {
    std::vector<TestState> states;
    for (std::int64_t rank = 0; rank < world_size; ++rank) {
      states.push_back(state_after(id.step, rank));
      if (extend) extend(states.back(), rank, world_size);
      states.back().set(id.step);
    }
    Manifest manifest{.id = id,
                      .identity = identity,
                      .time = test_time,
                      .is_final = is_final,
                      .nonce = std::to_string(id.generation) + "-1",
                      .data_nonce = data_nonce,
                      .values = {{"step", id.step}, {"metrics", {{"accuracy", 0.5}}}},
                      .entries = {},
                      .receipts = {}};
    for (const HostEntry& entry : states.front().entries()) manifest.entries.push_back(entry.info);
    for (std::int64_t rank = 0; rank < world_size; ++rank) {
      auto receipt = write_share(*store_, manifest, rank, world_size, states[static_cast<std::size_t>(rank)].entries());
      EXPECT_TRUE(receipt);
      if (data_nonce.empty()) {
        const std::string key = folder_key(id) + "/receipt-" + std::to_string(rank) + ".json";
        EXPECT_TRUE(storage::put_text(*store_, key, seal(to_json(*receipt))));
      }
      manifest.receipts.push_back(std::move(*receipt));
    }
    put(manifest);
    return manifest;
  }

  void put(const Manifest& manifest) {
    EXPECT_TRUE(storage::put_text(*store_, manifest_key(manifest.id), to_text(manifest)));
  }

  /// Replaces the object `key` by what `change` makes of its bytes.
  template <typename Change>
  void damage(const std::string& key, const Change& change) {
    auto content = store_->get(key);
    ASSERT_TRUE(content) << key;
    change(*content);
    const std::span<const std::byte> piece{*content};
    ASSERT_TRUE(store_->put(key, {&piece, 1}));
  }
  /// Flips a bit of byte `offset`; counted from the end where it is negative.
  void flip(const std::string& key, std::int64_t offset) {
    damage(key, [&](std::vector<std::byte>& content) {
      const auto place = offset < 0 ? static_cast<std::int64_t>(content.size()) + offset : offset;
      content.at(static_cast<std::size_t>(place)) ^= std::byte{0x10};
    });
  }
  void cut(const std::string& key, std::size_t bytes) {
    damage(key, [&](std::vector<std::byte>& content) { content.resize(content.size() - bytes); });
  }

  [[nodiscard]] storage::Store& store() { return *store_; }
  [[nodiscard]] Inventory inventory() {
    auto inventory = take_inventory(*store_);
    EXPECT_TRUE(inventory);
    return std::move(*inventory);
  }

 private:
  std::unique_ptr<storage::Store> store_;
};

/// A prefix in memory.
class MemoryPrefix : public testing::Test {
 protected:
  fakes::MemoryObjects objects;
  TestPrefix prefix{std::make_unique<fakes::MemoryStore>(objects)};
};

}  // namespace trainyard::checkpoint
