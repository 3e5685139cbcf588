#include "worker/checkpoint/staging.hpp"

#include <ATen/Functions.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "worker/checkpoint/entry_info.hpp"
#include "worker/dist/torch_error.hpp"

namespace trainyard::checkpoint {

Result<void> Staging::copy(const State& state) {
  std::vector<EntryInfo> infos;
  for (const Entry& entry : state.entries) {
    auto info = info_of(entry);
    if (!info) return tl::unexpected(info.error());
    infos.push_back(std::move(*info));
  }
  const torch::NoGradGuard no_grad;
  try {
    if (infos != infos_) make_buffers(state, infos);
    for (const Slice& slice : share_) {
      // Conjugated and negated views are resolved by this: their bytes alone would say something else.
      rows_of(buffers_[slice.entry], slice).copy_(rows_of(state.entries[slice.entry].tensor, slice));
    }
  } catch (const std::exception& error) {
    infos_.clear();
    return fail(ErrorKind::internal, fmt::format("copying the state to the host: {}", dist::message_of(error)));
  }
  return {};
}

bool Staging::is_finite() const {
  const torch::NoGradGuard no_grad;
  for (const Slice& slice : share_) {
    if (!must_be_finite_[slice.entry]) continue;
    // Whatever is not finite shows in the sum.
    if (!std::isfinite(rows_of(buffers_[slice.entry], slice).sum(torch::kDouble).item<double>())) return false;
  }
  return true;
}

torch::Tensor Staging::rows_of(const torch::Tensor& tensor, const Slice& slice) const {
  if (slice.row_end - slice.row_begin == row_count(infos_[slice.entry])) return tensor;
  return tensor.slice(0, static_cast<std::int64_t>(slice.row_begin), static_cast<std::int64_t>(slice.row_end));
}

// A tensor that is cut gets a place of its whole size: the rows of other ranks are never touched and take no memory.
void Staging::make_buffers(const State& state, const std::vector<EntryInfo>& infos) {
  infos_ = infos;
  share_ = share_of(rank_, world_size_, infos);
  must_be_finite_.clear();
  entries_.clear();
  for (const Entry& entry : state.entries) must_be_finite_.push_back(entry.must_be_finite);
  for (const EntryInfo& info : infos) entries_.push_back({.info = info, .bytes = {}});
  buffers_.assign(infos.size(), {});
  for (const Slice& slice : share_) {
    const torch::Tensor& tensor = state.entries[slice.entry].tensor;
    torch::Tensor& buffer = buffers_[slice.entry];
    buffer = at::empty(tensor.sizes(), at::TensorOptions{}.dtype(tensor.scalar_type()).device(at::kCPU));
    entries_[slice.entry].bytes = {static_cast<std::byte*>(buffer.data_ptr()), buffer.nbytes()};
  }
}

}  // namespace trainyard::checkpoint
