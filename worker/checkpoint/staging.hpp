#pragma once

#include <torch/types.h>

#include <cstdint>
#include <exception>
#include <random>
#include <span>
#include <vector>

#include "checkpoint/format/data_file.hpp"
#include "checkpoint/format/entry.hpp"
#include "common/result.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/checkpoint/device_reader.hpp"
#include "worker/checkpoint/samples.hpp"

namespace trainyard::checkpoint {

/// Which bytes of a state a rank stages.
enum class StagedPart {
  share,  ///< Its share of the replicated bytes, and all that only it has.
  whole,  ///< All replicated bytes, and all that only it has.
};

/// Stages this rank's part of a state: copies it to host memory, so that training may change the state while the copy
/// is written. The buffers are reused, with no allocation while the state's shapes stay.
/// Tensors on a device are staged as the calling thread's current stream leaves them. stage() does not wait for the
/// device, unless steady entries were found to change. One thread at a time. Both calls fail with ErrorKind::internal
/// for what torch reports (out of memory, a failed device); then entries() must not be used.
class Staging {
 public:
  Staging(std::int64_t rank, std::int64_t world_size, StagedPart part = StagedPart::share)
      : rank_{rank}, world_size_{world_size}, part_{part} {}

  /// Stages the entries that are not steady. Bytes on a device are copied there, and come to the host in
  /// stage_steady(). ErrorKind::invalid for sparse or quantized tensors.
  [[nodiscard]] Result<void> stage(const State& state);
  /// Stages the rest of the state. False when a steady entry has changed since stage(): torch's version counters show
  /// most changes, and samples of the bytes (samples.hpp) the others. Then the staged state is
  /// useless, and stage() stages everything at once from now on.
  [[nodiscard]] Result<bool> stage_steady();

  /// All entries of the state; only this rank's part has bytes.
  [[nodiscard]] std::span<const HostEntry> entries() const { return entries_; }

  /// True when the entries that must be finite are, in this rank's part. Throws as torch does.
  [[nodiscard]] bool is_finite() const;

 private:
  // Rows that stage() leaves to stage_steady().
  struct Steady {
    Slice slice;
    torch::Tensor rows;                 // The slice's rows, with the dimensions in the order of their bytes.
    std::vector<std::int64_t> order{};  // The slice's dimension for each dimension of `rows`.
    std::uint32_t version = 0;          // torch's version counter of the tensor and its views.
    SamplePlan plan;                    // Without lines if `rows` is this rank's own clone.
    std::vector<std::byte> samples{};   // The rows' bytes at stage(); for a device filled in by stage_steady().
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
  std::vector<Slice> slices_;           // This rank's part.
  std::vector<torch::Tensor> buffers_;  // By entry; undefined if this rank has no part of the entry.
  std::vector<HostEntry> entries_;      // Their bytes lie in the buffers.
  std::vector<Steady> steady_;          // Still to be staged.
  DeviceReader device_reader_;
  std::minstd_rand random_{std::random_device{}()};
  bool stages_all_at_once_ = false;
};

}  // namespace trainyard::checkpoint
