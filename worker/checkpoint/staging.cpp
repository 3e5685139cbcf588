#include "worker/checkpoint/staging.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "common/try.hpp"
#include "worker/checkpoint/host_state.hpp"
#include "worker/dist/torch_error.hpp"

namespace trainyard::checkpoint {
namespace {

constexpr int copy_threads_max = 4;

// Compares everything but the bytes.
bool is_alike(const HostEntry& a, const HostEntry& b) {
  return a.info == b.info && a.rows == b.rows;
}

std::uint32_t version_of(const torch::Tensor& tensor) {
  return static_cast<std::uint32_t>(tensor._version());
}

// The order of dimensions in which the tensor is contiguous, as for a contiguous or a channels-last tensor. Nothing if
// there is no such order, or if the bytes are not the values (conjugated, negated).
std::optional<std::vector<std::int64_t>> order_in_memory(const torch::Tensor& tensor) {
  if (tensor.is_conj() || tensor.is_neg()) return std::nullopt;
  std::vector<std::int64_t> order(static_cast<std::size_t>(tensor.dim()));
  std::iota(order.begin(), order.end(), 0);
  if (tensor.is_contiguous()) return order;
  std::ranges::stable_sort(order, std::greater{}, [&](std::int64_t dimension) { return tensor.stride(dimension); });
  return tensor.permute(order).is_contiguous() ? std::optional{order} : std::nullopt;
}

std::vector<std::int64_t> inverse_of(std::span<const std::int64_t> order) {
  std::vector<std::int64_t> inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return inverse;
}

// Training waits for the copy, so that this rank's processors are free for it. One thread copies about 10 GB/s, and a
// GPU delivers 25 and more.
std::size_t copy_threads() {
  return static_cast<std::size_t>(std::clamp(at::get_num_threads(), 1, copy_threads_max));
}

std::span<const std::byte> bytes_of(const torch::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace

Result<void> Staging::stage(const State& state, bool may_copy_all) {
  std::vector<HostEntry> described;
  for (const Entry& entry : state.entries) {
    auto one = TRY(describe(entry));
    described.push_back(std::move(one));
  }
  const torch::NoGradGuard no_grad;
  Way way = Way::leave;
  try {
    if (!std::ranges::equal(described, entries_, is_alike)) make_buffers(state, std::move(described));
    device_copy_ = ask_for_room(state);
    if (device_copy_ && !may_copy_all) device_copy_->is_made = false;
    way = stage_as_memory_allows(state);
    mark_devices();
  } catch (const std::exception& error) {
    return give_up(error);
  }
  if (way == Way::at_once || stages_all_at_once_) return stage_steady().map([](bool) {});
  return {};
}

// Tries a way that needs less memory where a device has none for the one before.
Staging::Way Staging::stage_as_memory_allows(const State& state) {
  Way way = device_copy_ && device_copy_->is_made ? Way::copy : Way::leave;
  for (;;) {
    try {
      stage_or_leave(state, way);
      return way;
    } catch (const c10::OutOfMemoryError&) {
      if (way == Way::at_once) throw;
      copies_.clear();
      if (way == Way::copy) {
        // The memory was taken since the device was asked for it, or is in pieces that are too small.
        room_.copy_failed(*device_copy_);
        device_copy_->is_made = false;
      }
      way = way == Way::copy ? Way::leave : Way::at_once;
    }
  }
}

// Copies what may change before stage_steady(), and leaves the rest for it.
void Staging::stage_or_leave(const State& state, Way way) {
  const bool is_at_once = stages_all_at_once_ || way == Way::at_once;
  steady_.clear();
  copies_.clear();
  for (const Slice& slice : slices_) {
    const Entry& entry = state.entries[slice.entry];
    const torch::Tensor rows = rows_of(entry.tensor, slice);
    const bool is_copied = !rows.is_cpu() && way == Way::copy;
    auto order = entry.is_steady && !is_copied && !is_at_once ? order_in_memory(rows) : std::nullopt;
    if (order) {
      steady_.push_back(steady_rows(rows, slice, *std::move(order)));
    } else if (rows.is_cpu()) {
      copy_rows(rows, slice);
    } else if (is_copied || !is_at_once) {
      copies_.push_back({.slice = slice, .rows = rows.clone(at::MemoryFormat::Contiguous)});
    } else {
      steady_.push_back({.slice = slice, .rows = rows, .version = version_of(rows), .plan = {}});
    }
  }
}

Result<bool> Staging::stage_steady() {
  const torch::NoGradGuard no_grad;
  std::vector<Steady> steady = std::exchange(steady_, {});
  try {
    device_reader_.use_threads(copy_threads());
    for (Steady& one : steady) {
      copy_rows(one.order.empty() ? one.rows : one.rows.permute(inverse_of(one.order)), one.slice);
      if (!one.device_samples.defined()) continue;
      one.samples.resize(one.device_samples.nbytes());
      device_reader_.read(one.device_samples, one.samples);
    }
    device_reader_.finish();
    const bool is_whole = std::ranges::all_of(steady, [&](const Steady& one) { return is_as_it_was(one); });
    stages_all_at_once_ = stages_all_at_once_ || !is_whole;
    return is_whole;
  } catch (const std::exception& error) {
    return give_up(error);
  }
}

Result<void> Staging::fetch_copies() {
  std::vector<RowsOnDevice> copies = std::exchange(copies_, {});
  if (copies.empty()) return {};
  const torch::NoGradGuard no_grad;
  try {
    device_reader_.use_threads(1);  // Training does not wait, and has use for the other processors.
    for (const RowsOnDevice& one : copies) copy_rows(one.rows, one.slice);
    device_reader_.finish();
    copies.clear();
    if (device_copy_ && device_copy_->is_made) room_.copies_are_freed();
    return {};
  } catch (const std::exception& error) {
    return give_up(error);
  }
}

// Takes samples of the rows' bytes: some reads on the host, one small kernel on a device.
Staging::Steady Staging::steady_rows(const torch::Tensor& rows, const Slice& slice, std::vector<std::int64_t> order) {
  const double random = std::uniform_real_distribution{0.0, 1.0}(random_);
  Steady one{.slice = slice,
             .rows = rows.permute(order),
             .order = std::move(order),
             .version = version_of(rows),
             .plan = plan_samples(rows.nbytes(), static_cast<std::uint64_t>(rows.element_size()), random)};
  if (rows.is_cpu()) {
    one.samples = samples_of(bytes_of(one.rows), one.plan);
  } else {
    one.device_samples = samples_on_device(one.rows, one.plan);
  }
  return one;
}

bool Staging::is_as_it_was(const Steady& one) const {
  if (version_of(one.rows) != one.version) return false;
  if (one.plan.count == 0) return true;
  const torch::Tensor copy = rows_of(buffers_[one.slice.entry], one.slice).permute(one.order).contiguous();
  return samples_of(bytes_of(copy), one.plan) == one.samples;
}

bool Staging::is_finite() const {
  const torch::NoGradGuard no_grad;
  for (const Slice& slice : slices_) {
    if (!must_be_finite_[slice.entry]) continue;
    const torch::Tensor rows = rows_of(buffers_[slice.entry], slice);
    // The sum is not finite if any element is not.
    if (std::isfinite(rows.sum(torch::kDouble).item<double>())) continue;
    // Only elements of 64 bits are large enough for a sum that overflows.
    if (rows.scalar_type() != torch::kDouble || !at::isfinite(rows).all().item<bool>()) return false;
  }
  return true;
}

torch::Tensor Staging::rows_of(const torch::Tensor& tensor, const Slice& slice) const {
  const Rows held = held_rows(entries_[slice.entry]);
  if (slice.row_begin == held.begin && slice.row_end == held.end) return tensor;
  return tensor.slice(0, static_cast<std::int64_t>(slice.row_begin - held.begin),
                      static_cast<std::int64_t>(slice.row_end - held.begin));
}

tl::unexpected<Error> Staging::give_up(const std::exception& error) {
  entries_.clear();
  steady_.clear();
  copies_.clear();
  device_reader_ = DeviceReader{};
  return fail(ErrorKind::internal, fmt::format("copying the state to the host: {}", dist::message_of(error)));
}

// The reader then sees the results of the work that is queued on the devices now, and of nothing later.
void Staging::mark_devices() {
  std::set<c10::DeviceIndex> marked;
  const auto mark = [&](const torch::Tensor& rows) {
    const torch::Device device = rows.device();
    if (!device.is_cpu() && marked.insert(device.index()).second) device_reader_.mark(device);
  };
  for (const Steady& one : steady_) mark(one.rows);
  for (const RowsOnDevice& one : copies_) mark(one.rows);
}

std::optional<DeviceCopy> Staging::ask_for_room(const State& state) {
  std::map<c10::DeviceIndex, std::uint64_t> needed_bytes;
  torch::DeviceType type = torch::kCPU;
  for (const Slice& slice : slices_) {
    const torch::Tensor rows = rows_of(state.entries[slice.entry].tensor, slice);
    if (rows.is_cpu()) continue;
    type = rows.device().type();
    needed_bytes[rows.device().index()] += rows.nbytes();
  }
  return room_.ask(needed_bytes, type);
}

void Staging::copy_rows(const torch::Tensor& rows, const Slice& slice) {
  const torch::Tensor to = rows_of(buffers_[slice.entry], slice);
  if (!rows.is_cpu()) {
    device_reader_.read(rows, {static_cast<std::byte*>(to.data_ptr()), to.nbytes()});
  } else if (has_plain_bytes(rows)) {
    // memcpy, since torch's copy would use threads and take processors from the training step.
    std::memcpy(to.data_ptr(), rows.const_data_ptr(), rows.nbytes());
  } else {
    // torch's copy resolves conjugated and negated views, whose bytes alone are not their values.
    to.copy_(rows);
  }
}

// A tensor that is cut gets a buffer of its whole size: other ranks' rows are never touched, and take no memory.
void Staging::make_buffers(const State& state, std::vector<HostEntry> described) {
  entries_ = std::move(described);
  slices_ = part_ == StagedPart::whole ? whole_of(rank_, entries_) : share_of(rank_, world_size_, entries_);
  must_be_finite_.clear();
  for (const Entry& entry : state.entries) must_be_finite_.push_back(entry.must_be_finite);
  buffers_.assign(entries_.size(), {});
  for (const Slice& slice : slices_) {
    const torch::Tensor& tensor = state.entries[slice.entry].tensor;
    torch::Tensor& buffer = buffers_[slice.entry];
    buffer = at::empty(tensor.sizes(), at::TensorOptions{}.dtype(tensor.scalar_type()).device(at::kCPU));
    entries_[slice.entry].bytes = {static_cast<std::byte*>(buffer.data_ptr()), buffer.nbytes()};
  }
}

}  // namespace trainyard::checkpoint
