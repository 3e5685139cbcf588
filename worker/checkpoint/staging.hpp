#pragma once

#include <torch/types.h>

#include <cstdint>
#include <exception>
#include <random>
#include <span>
#include <vector>

#include "checkpoint/format/entry.hpp"
#include "checkpoint/format/split.hpp"
#include "common/result.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/checkpoint/device_reader.hpp"
#include "worker/checkpoint/samples.hpp"

namespace trainyard::checkpoint {

/// Which bytes of a state a rank needs a copy of.
enum class StagedPart {
  share,  ///< Its share of the replicated bytes, and what only it has.
  whole,  ///< All replicated bytes, and what only it has.
};

/// A copy of what this rank writes of a state, which training may change meanwhile. The buffers are kept from copy to
/// copy: host memory of the size of the part, and no allocation after the first while the state's shapes stay. What is
/// on a device is as the calling thread's current stream leaves it, which copy() does not wait for, unless what should
/// have been steady was not. Used by one thread at a time. Both copies fail with ErrorKind::internal for what torch
/// refuses (out of memory, a device that failed); entries() are then not to be used.
class Staging {
 public:
  Staging(std::int64_t rank, std::int64_t world_size, StagedPart part = StagedPart::share)
      : rank_(rank), world_size_(world_size), part_(part) {}

  /// Copies this rank's part of what is not steady, each byte once; what of it is on a device is copied there, and goes
  /// to the host with the rest. ErrorKind::invalid for sparse or quantized tensors.
  [[nodiscard]] Result<void> stage(const State& state);
  /// Copies the rest of that state, and says whether it is as it was at copy(): by the counts of changes that torch
  /// keeps, and by samples of the bytes (samples.hpp) for changes that torch does not count. If it is not, the copy is
  /// worth nothing, and copy() takes all from now on.
  [[nodiscard]] Result<bool> stage_steady();

  /// Of the whole state; only the bytes of this rank's part are there.
  [[nodiscard]] std::span<const HostEntry> entries() const { return entries_; }

  /// Whether the part of what must be finite is so. Throws as torch does.
  [[nodiscard]] bool is_finite() const;

 private:
  // What copy() left to stage_steady().
  struct Steady {
    Slice slice;
    torch::Tensor rows;                 // The slice's, its dimensions in their order in memory.
    std::vector<std::int64_t> order{};  // Of the slice's dimensions in `rows`.
    std::uint32_t version = 0;          // As torch counts the changes in place of a tensor and of its views.
    SamplePlan plan;                    // Of no lines where the rows are this copy's own.
    std::vector<std::byte> samples{};   // Of the rows as they were; for a device filled in once they were read.
    torch::Tensor device_samples{};
  };

  [[nodiscard]] torch::Tensor rows_of(const torch::Tensor& tensor, const Slice& slice) const;
  [[nodiscard]] tl::unexpected<Error> give_up(const std::exception& error);
  [[nodiscard]] Steady steady_rows(const torch::Tensor& rows, const Slice& slice, std::vector<std::int64_t> order);
  [[nodiscard]] bool is_as_it_was(const Steady& one) const;
  void mark_devices();
  void copy_rows(const torch::Tensor& rows, const Slice& slice);
  void make_buffers(const State& state, std::vector<HostEntry> described);

  std::int64_t rank_;
  std::int64_t world_size_;
  StagedPart part_;
  std::vector<bool> must_be_finite_;    // By entry.
  std::vector<Slice> slices_;           // Of this rank's part.
  std::vector<torch::Tensor> buffers_;  // By entry; undefined where nothing is this rank's.
  std::vector<HostEntry> entries_;      // What the buffers are for; their bytes lie in them.
  std::vector<Steady> steady_;          // Still to be copied.
  DeviceReader device_reader_;
  std::minstd_rand random_{std::random_device{}()};
  bool stages_all_at_once_ = false;
};

}  // namespace trainyard::checkpoint
