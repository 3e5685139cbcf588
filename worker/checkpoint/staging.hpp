#pragma once

#include <torch/types.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "checkpoint/format/data_file.hpp"
#include "checkpoint/format/entry.hpp"
#include "common/result.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/checkpoint/device_copy.hpp"
#include "worker/checkpoint/device_reader.hpp"
#include "worker/checkpoint/samples.hpp"

namespace trainyard::checkpoint {

/// Which bytes of a state a rank stages.
enum class StagedPart {
  share,  ///< Its share of the replicated bytes, and all that only it has.
  whole,  ///< All replicated bytes, and all that only it has.
};

/// Stages this rank's part of a state: copies it to host memory, so that training may change the state while the copy
/// is written. One save is three calls: stage(), stage_steady() and fetch_copies(). The buffers are reused, with no
/// allocation while the state's shapes stay.
///
/// Tensors on a device are staged as the calling thread's current stream leaves them. One thread at a time. The three
/// calls fail with ErrorKind::internal for what torch reports (out of memory, a failed device); then entries() must not
/// be used.
class Staging {
 public:
  /// `gauge` outlives the staging; nullptr: the memory of devices is not known, and steady entries are not copied
  /// there.
  Staging(std::int64_t rank, std::int64_t world_size, StagedPart part = StagedPart::share,
          dist::DeviceMemoryGauge* gauge = nullptr)
      : rank_{rank}, world_size_{world_size}, part_{part}, room_{gauge} {}

  /// Stages the entries that are not steady. Those on a device are copied there. So are steady ones where there is room
  /// for all (device_copy.hpp) and `may_copy_all`; they may change at once. Waits for a device only if it has no memory
  /// even for entries that are not steady, or has no room after steady entries were found to change: everything then
  /// comes to the host at once. ErrorKind::invalid for sparse or quantized tensors.
  [[nodiscard]] Result<void> stage(const State& state, bool may_copy_all = true);
  /// Stages the steady entries that were not copied on a device. False when one of them has changed since stage():
  /// torch's version counters show most changes, and samples of the bytes (samples.hpp) the others. Then the staged
  /// state is useless, and stage() stages everything at once from now on.
  [[nodiscard]] Result<bool> stage_steady();
  /// Brings the copies on devices to the host, and gives their memory back to torch's allocator. The state may change
  /// meanwhile.
  [[nodiscard]] Result<void> fetch_copies();

  /// The copy of the last staged state on its device. Nothing: the state is on no device, or the devices' memory is not
  /// known.
  [[nodiscard]] const std::optional<DeviceCopy>& device_copy() const { return device_copy_; }

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
    SamplePlan plan;                    // Without lines if stage() stages everything at once.
    std::vector<std::byte> samples{};   // The rows' bytes at stage(); for a device filled in by stage_steady().
    torch::Tensor device_samples{};
  };
  // A copy on a device, which stage() leaves to fetch_copies().
  struct RowsOnDevice {
    Slice slice;
    torch::Tensor rows;
  };

  // The ways in which a state on a device is staged, each of which needs less memory there than the one before.
  enum class Way {
    copy,     // All of it is copied on the device.
    leave,    // stage_steady() takes the steady entries; the others are copied on the device.
    at_once,  // All of it comes to the host before stage() returns.
  };

  [[nodiscard]] torch::Tensor rows_of(const torch::Tensor& tensor, const Slice& slice) const;
  [[nodiscard]] tl::unexpected<Error> give_up(const std::exception& error);
  [[nodiscard]] Steady steady_rows(const torch::Tensor& rows, const Slice& slice, std::vector<std::int64_t> order);
  [[nodiscard]] bool is_as_it_was(const Steady& one) const;
  [[nodiscard]] std::optional<DeviceCopy> ask_for_room(const State& state);
  void stage_or_leave(const State& state, Way way);
  [[nodiscard]] Way stage_as_memory_allows(const State& state);
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
  std::vector<RowsOnDevice> copies_;    // Still to be fetched.
  std::optional<DeviceCopy> device_copy_;
  DeviceRoom room_;
  DeviceReader device_reader_;
  std::minstd_rand random_{std::random_device{}()};
  bool stages_all_at_once_ = false;
};

}  // namespace trainyard::checkpoint
