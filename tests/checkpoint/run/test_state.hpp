#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/entry.hpp"

namespace trainyard::checkpoint {

/// A small training state in memory, with entries of every placement, whose bytes depend on step and rank.
class TestState {
 public:
  /// `large_rows`: the rows of the largest entry, 1 KiB each. Ranks share it when it has more than 1 MiB.
  explicit TestState(std::int64_t rank = 0, std::int64_t large_rows = 1100) : rank_{rank} {
    add("model.weight", Placement::replicated, "F32", {64, 7}, 4);
    add("model.large", Placement::replicated, "BF16", {large_rows, 512}, 2);
    add("model.steps", Placement::replicated, "I64", {}, 8);
    add("model.odd", Placement::replicated, "U8", {13}, 1);
    add("model.empty", Placement::replicated, "F64", {0, 4}, 8);
    add("optimizer.complex", Placement::replicated, "ComplexDouble", {5}, 16);
    add("buffer.mean", Placement::rank0, "F32", {9}, 4);
    add("rng.cpu", Placement::per_rank, "U8", {31}, 1);
    set(-1);
  }

  /// Adds the entry of a device that has a random generator of its own.
  void add_device_generator() {
    add("rng.cuda", Placement::per_rank, "U8", {16}, 1);
    fill(entries_.size() - 1, -1);
  }

  /// `shape` is the whole tensor's, whose bytes are the same however it is cut; this rank holds `rows`.
  void add_sharded(std::string name, std::string dtype, std::vector<std::int64_t> shape, std::uint64_t element_bytes,
                   const Rows& rows) {
    add(std::move(name), Placement::sharded, std::move(dtype), std::move(shape), element_bytes);
    HostEntry& entry = entries_.back();
    entry.rows = rows;
    bytes_.back().resize((rows.end - rows.begin) * row_bytes(entry.info));
    entry.bytes = bytes_.back();
    fill(entries_.size() - 1, -1);
  }

  /// As add_sharded(), of a tensor that every rank has whole.
  void add_replicated(std::string name, std::string dtype, std::vector<std::int64_t> shape,
                      std::uint64_t element_bytes) {
    add(std::move(name), Placement::replicated, std::move(dtype), std::move(shape), element_bytes);
    fill(entries_.size() - 1, -1);
  }

  /// Makes this the state after `step` steps.
  void set(std::int64_t step) {
    for (std::size_t i = 0; i < bytes_.size(); ++i) fill(i, step);
  }

  [[nodiscard]] std::span<const HostEntry> entries() const { return entries_; }
  [[nodiscard]] bool operator==(const TestState& other) const { return bytes_ == other.bytes_; }

 private:
  void add(std::string name, Placement placement, std::string dtype, std::vector<std::int64_t> shape,
           std::uint64_t element_bytes) {
    std::uint64_t bytes = element_bytes;
    for (const std::int64_t extent : shape) bytes *= static_cast<std::uint64_t>(extent);
    bytes_.emplace_back(bytes);
    entries_.push_back({.info = {.name = std::move(name),
                                 .placement = placement,
                                 .dtype = std::move(dtype),
                                 .shape = std::move(shape),
                                 .bytes = bytes},
                        .bytes = bytes_.back()});
  }

  // A byte depends on its place in the whole tensor, so that a cut shows the same bytes.
  void fill(std::size_t i, std::int64_t step) {
    const bool is_own = entries_[i].info.placement == Placement::per_rank;
    const std::uint64_t seed =
        1000 * i + 7 * static_cast<std::uint64_t>(step + 1) + (is_own ? 3 + static_cast<std::uint64_t>(rank_) : 1);
    std::uint64_t place = 127 * seed + held_rows(entries_[i]).begin * row_bytes(entries_[i].info);
    for (std::span<std::byte> left{bytes_[i]}; !left.empty();) {
      const auto piece = std::span{noise()}.subspan(place % noise().size());
      const std::size_t bytes = std::min(piece.size(), left.size());
      std::copy_n(piece.begin(), bytes, left.begin());
      left = left.subspan(bytes);
      place += bytes;
    }
  }

  // Copied, since under a sanitizer most of a test's time would go into making bytes.
  static const std::array<std::byte, 65521>& noise() {
    static const auto bytes = [] {
      std::array<std::byte, 65521> made{};
      std::uint64_t word = 0;
      for (std::byte& byte : made) {
        word = word * 6364136223846793005U + 1442695040888963407U;
        byte = static_cast<std::byte>(word >> 56);
      }
      return made;
    }();
    return bytes;
  }

  std::int64_t rank_;
  std::vector<std::vector<std::byte>> bytes_;  // Each one's memory stays where it is when this grows or moves.
  std::vector<HostEntry> entries_;
};

/// The state of `rank` after `step` steps.
[[nodiscard]] inline TestState state_after(std::int64_t step, std::int64_t rank = 0) {
  TestState state{rank};
  state.set(step);
  return state;
}

}  // namespace trainyard::checkpoint
