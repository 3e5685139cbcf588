#include "worker/strategy/row_exchange.hpp"

#include <ATen/ScalarOps.h>
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <exception>
#include <numeric>
#include <utility>

#include "worker/dist/torch_error.hpp"
#include "worker/strategy/exchange_failed.hpp"

namespace trainyard::strategy {
namespace {

/// A view of `flat` from `begin` on, with the shape and strides of `like`.
torch::Tensor part_of(const torch::Tensor& flat, std::int64_t begin, const torch::Tensor& like) {
  return flat.as_strided(like.sizes(), like.strides(), flat.storage_offset() + begin);
}

std::int64_t sum_of(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

torch::Tensor rows_of(const torch::Tensor& tensor, const RowRange& rows) {
  return (tensor.dim() == 0 ? tensor.view({1}) : tensor).narrow(0, rows.begin, rows.count());
}

RowExchange::RowExchange(std::vector<torch::Tensor> parameters, std::vector<std::vector<RowRange>> rows,
                         c10::intrusive_ptr<c10d::ProcessGroup> process_group, FreedMemory freed)
    : with_gradient_{std::move(parameters)},
      rows_{std::move(rows)},
      process_group_{std::move(process_group)},
      freed_{freed},
      rank_{static_cast<std::size_t>(process_group_->getRank())},
      world_size_{static_cast<std::size_t>(process_group_->getSize())},
      counts_(world_size_, 0) {  // Braces would make two elements.
  for (std::size_t index = 0; index < with_gradient_.size(); ++index) {
    parameters_.push_back(with_gradient_[index].detach());
    bytes_ += static_cast<std::int64_t>(parameters_.back().nbytes());
    for (std::size_t rank = 0; rank < world_size_; ++rank)
      counts_[rank] += rows_of(parameters_.back(), rows_[index][rank]).numel();
  }
}

torch::Tensor RowExchange::make_buffer_of(std::int64_t count) const {
  return make_buffer(count, parameters_.front().options(), freed_);
}

c10::intrusive_ptr<c10d::Work> RowExchange::exchange(std::vector<std::int64_t> sent,
                                                     std::vector<std::int64_t> received) {
  received_ = make_buffer_of(sum_of(received));
  const std::int64_t element_bytes = sent_.element_size();
  for (auto* counts : {&sent, &received}) {
    for (std::int64_t& count : *counts) count *= element_bytes;
  }
  exchanged_bytes_ += sent_.nbytes();
  // As bytes, because Gloo does not know all types.
  torch::Tensor to = received_.view(torch::kUInt8), from = sent_.view(torch::kUInt8);
  try {
    return process_group_->alltoall_base(to, from, received, sent);
  } catch (const std::exception& error) {
    // The failure of this rank's own device or kernels is not the loss of a peer.
    if (!sent_.is_cpu() && dist::failed_part(error) != dist::FailedPart::communication) throw;
    throw ExchangeFailed{
        {.kind = ErrorKind::unavailable,
         .message = fmt::format("sending rows of parameters or of gradients: {}", dist::message_of(error)),
         .retry_after = {}}};
  }
}

c10::intrusive_ptr<c10d::Work> RowExchange::begin_reduce(double scale) {
  const torch::NoGradGuard no_grad;
  const auto flag_count = static_cast<std::int64_t>(parameters_.size());
  std::vector<std::int64_t> counts;  // By rank: the numbers of its chunk, which begins with the flags.
  for (const std::int64_t count : counts_) counts.push_back(flag_count + count);
  sent_ = make_buffer_of(sum_of(counts));
  std::vector<std::int64_t> ends;  // by rank: of the numbers that are in its chunk
  for (std::size_t rank = 0; rank < world_size_; ++rank) {
    ends.push_back(rank == 0 ? flag_count : ends.back() + counts[rank - 1]);
    sent_.narrow(0, ends[rank] - flag_count, flag_count).fill_(1);
  }
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    if (with_gradient_[index].grad().defined()) continue;
    for (const std::int64_t end : ends) sent_[end - flag_count + static_cast<std::int64_t>(index)].zero_();
  }
  const torch::Tensor factor = at::native::wrapped_scalar_tensor(scale);
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    torch::Tensor& gradient = with_gradient_[index].mutable_grad();
    for (std::size_t rank = 0; rank < world_size_; ++rank) {
      const RowRange& rows = rows_[index][rank];
      torch::Tensor part = part_of(sent_, ends[rank], rows_of(parameters_[index], rows));
      ends[rank] += part.numel();
      if (gradient.defined()) {
        torch::mul_out(part, rows_of(gradient, rows), factor);
      } else {
        part.zero_();
      }
    }
    gradient.reset();  // So that a bucket's gradients are never there twice.
  }
  return exchange(counts, std::vector<std::int64_t>(world_size_, counts[rank_]));
}

RowExchange::Reduced RowExchange::finish_reduce() {
  const torch::NoGradGuard no_grad;
  const auto flag_count = static_cast<std::int64_t>(parameters_.size());
  sent_.reset();
  const torch::Tensor by_rank = received_.view({static_cast<std::int64_t>(world_size_), -1});
  torch::Tensor sum = make_buffer_of(by_rank.size(1));
  torch::sum_out(sum, by_rank, 0);
  received_.reset();
  Reduced reduced{.gradients = {}, .used = sum.slice(0, 0, flag_count)};
  std::int64_t begin = flag_count;
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    const torch::Tensor like = rows_of(parameters_[index], rows_[index][rank_]);
    reduced.gradients.push_back(part_of(sum, begin, like));
    begin += like.numel();
  }
  return reduced;
}

c10::intrusive_ptr<c10d::Work> RowExchange::begin_gather(const std::vector<torch::Tensor>& rows) {
  const torch::NoGradGuard no_grad;
  const std::int64_t own = counts_[rank_];
  sent_ = make_buffer_of(own * static_cast<std::int64_t>(world_size_));
  std::int64_t end = 0;
  for (const torch::Tensor& of_parameter : rows) {
    part_of(sent_, end, of_parameter).copy_(of_parameter);
    end += of_parameter.numel();
  }
  for (std::int64_t copy = 1; copy < static_cast<std::int64_t>(world_size_); ++copy)
    sent_.narrow(0, copy * own, own).copy_(sent_.narrow(0, 0, own));
  return exchange(std::vector<std::int64_t>(world_size_, own), counts_);
}

void RowExchange::finish_gather(const std::vector<torch::Tensor>& to, bool sets_own_rows) {
  const torch::NoGradGuard no_grad;
  std::int64_t begin = 0;
  for (std::size_t rank = 0; rank < world_size_; ++rank) {
    for (std::size_t index = 0; index < to.size(); ++index) {
      const torch::Tensor rows = rows_of(to[index], rows_[index][rank]);
      if (sets_own_rows || rank != rank_) rows.copy_(part_of(received_, begin, rows));
      begin += rows.numel();
    }
  }
  sent_.reset();
  received_.reset();
}

}  // namespace trainyard::strategy
