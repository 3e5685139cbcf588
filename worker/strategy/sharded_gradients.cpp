#include "worker/strategy/sharded_gradients.hpp"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "common/try.hpp"
#include "include/trainyard/options.hpp"
#include "worker/strategy/exchange_failed.hpp"

namespace trainyard::strategy {
namespace {

/// The rows of `parameter` as cut_rows() takes them.
RowSize size_of(const std::string& name, const torch::Tensor& parameter) {
  const std::int64_t rows = parameter.dim() == 0 ? 1 : parameter.size(0);
  if (parameter.numel() == 0) return {.rows = rows, .row_bytes = 0};
  // Optimizers' kernels walk rows, gradients and state by address.
  const bool has_gaps =
      !parameter.is_non_overlapping_and_dense() || (rows > 1 && parameter.stride(0) != parameter.numel() / rows);
  if (has_gaps) {
    throw InvalidJob{
        fmt::format("training.strategy.name: sharded cannot cut the parameter {}, whose rows do not lie one after the "
                    "other in memory: make it contiguous, or choose another strategy",
                    name)};
  }
  return {.rows = rows, .row_bytes = static_cast<std::int64_t>(parameter.nbytes()) / rows};
}

/// Memory for a copy with equal strides. As long as nobody writes to it, large memory of the host takes no pages.
torch::Tensor own_memory_for(const torch::Tensor& rows) {
  return make_buffer(rows.numel(), rows.options(), FreedMemory::returned).as_strided(rows.sizes(), rows.strides());
}

}  // namespace

ShardedGradients::ShardedGradients(const NamedTensors& parameters, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
                                   Options options)
    : options_{std::move(options)}, scale_{1.0 / process_group->getSize()} {
  std::vector<RowSize> sizes;
  for (const auto& [name, parameter] : parameters) {
    parameters_.push_back(parameter);
    sizes.push_back(size_of(name, parameter));
  }
  rows_ = cut_rows(sizes, process_group->getSize());
  const auto rank = static_cast<std::size_t>(process_group->getRank());
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    const torch::Tensor rows = rows_of(parameters_[index].detach(), rows_[index][rank]);
    shards_.push_back({.parameter = parameters_[index],
                       .rows = options_.has_own_rows ? own_memory_for(rows) : rows,
                       .row_begin = rows_[index][rank].begin});
  }
  const FreedMemory freed = options_.has_own_rows ? FreedMemory::returned : FreedMemory::kept;
  bucket_of_.resize(parameters_.size());
  is_ready_.resize(parameters_.size());
  for (BucketIndices& indices : assign_buckets(parameters_, options_.limits)) {
    std::vector<torch::Tensor> of_bucket, whole, own_rows;
    std::vector<std::vector<RowRange>> rows_of_bucket;
    for (const std::size_t index : indices) {
      bucket_of_[index] = buckets_.size();
      of_bucket.push_back(parameters_[index]);
      whole.push_back(parameters_[index].detach());
      own_rows.push_back(shards_[index].rows.detach());
      rows_of_bucket.push_back(rows_[index]);
    }
    buckets_.push_back({.parameters = std::move(indices),
                        .whole = std::move(whole),
                        .own_rows = std::move(own_rows),
                        .exchange = {std::move(of_bucket), std::move(rows_of_bucket), process_group, freed}});
  }
  hooks_.emplace(parameters_, [this](std::size_t parameter) { take_gradient(parameter); });
}

void ShardedGradients::zero() {
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    parameters_[index].mutable_grad().reset();
    shards_[index].rows.mutable_grad().reset();
    is_ready_[index] = false;
  }
  for (Bucket& bucket : buckets_) bucket.ready_count = 0;
  next_bucket_ = 0;
  is_last_batch_ = true;
}

void ShardedGradients::take_gradient(std::size_t parameter) {
  if (is_ready_[parameter]) {
    throw std::logic_error(
        "a parameter got its gradient twice in one step: training_step must not call backward() itself");
  }
  // An autograd function may give an input no gradient. The parameter is then unused, as for c10d::Reducer.
  const torch::Tensor& gradient = parameters_[parameter].grad();
  if (!gradient.defined()) return;
  TORCH_CHECK(!gradient.is_sparse(), "sparse gradients are not reduced: give the embedding sparse(false)");
  if (!is_last_batch_) return;
  is_ready_[parameter] = true;
  Bucket& bucket = buckets_[bucket_of_[parameter]];
  const bool is_full = ++bucket.ready_count == bucket.parameters.size();
  if (is_full && !options_.sends_at_end && !options_.has_own_rows) send_full_buckets();
}

void ShardedGradients::send_full_buckets() {
  send_up_to(full_buckets());
}

std::size_t ShardedGradients::full_buckets() const {
  std::size_t count = next_bucket_;
  while (count < buckets_.size() && buckets_[count].ready_count == buckets_[count].parameters.size()) ++count;
  return count;
}

void ShardedGradients::send_up_to(std::size_t count) {
  for (; !has_failed() && next_bucket_ < count; ++next_bucket_) {
    // A failure that was thrown through the backward pass would look like the model's.
    attempt([&]() -> Result<void> {
      TRY(complete());
      work_ = buckets_[next_bucket_].exchange.begin_reduce(scale_);
      sent_bucket_ = next_bucket_;
      return {};
    });
  }
}

std::vector<BucketIndices> ShardedGradients::buckets() const {
  std::vector<BucketIndices> found;
  for (const Bucket& bucket : buckets_) found.push_back(bucket.parameters);
  return found;
}

Result<void> ShardedGradients::complete() {
  if (!sent_bucket_) return {};
  Bucket& bucket = buckets_[*sent_bucket_];
  const bool uses_all = std::ranges::all_of(bucket.parameters, [&](std::size_t index) { return is_ready_[index]; });
  // A rank that did not use a parameter reads numbers back from its device.
  TRY((uses_all ? options_.follow : options_.wait)(work_, "the gradients' exchange"));
  sent_bucket_.reset();
  work_.reset();
  const RowExchange::Reduced reduced = bucket.exchange.finish_reduce();
  const torch::Tensor used = uses_all ? torch::Tensor{} : reduced.used.to(torch::kCPU, torch::kDouble);
  for (std::size_t place = 0; place < bucket.parameters.size(); ++place) {
    const std::size_t index = bucket.parameters[place];
    const bool is_used = is_ready_[index] || used.const_data_ptr<double>()[place] > 0.0;
    if (is_used) shards_[index].rows.mutable_grad() = reduced.gradients[place];
  }
  return {};
}

Result<void> ShardedGradients::finish() {
  for (Bucket& bucket : buckets_) {
    for (const std::size_t index : bucket.parameters) {
      // Only an earlier batch of the step used the parameter.
      if (!is_ready_[index] && parameters_[index].grad().defined()) is_ready_[index] = true;
    }
    bucket.ready_count = bucket.parameters.size();
  }
  send_full_buckets();
  if (!has_failed()) attempt([this] { return complete(); });
  return kept_failure();
}

Result<void> ShardedGradients::gather() {
  for (Bucket& bucket : buckets_) {
    attempt([&]() -> Result<void> {
      TRY(options_.follow(bucket.exchange.begin_gather(bucket.own_rows), "the exchange of the parameters"));
      bucket.exchange.finish_gather(bucket.whole, /*sets_own_rows=*/false);
      return {};
    });
    TRY(kept_failure());
  }
  return {};
}

void ShardedGradients::attempt(const std::function<Result<void>()>& exchange) {
  try {
    if (auto done = exchange(); !done) error_ = done.error();
  } catch (const ExchangeFailed& failed) {
    error_ = failed.error();
  } catch (...) {
    own_failure_ = std::current_exception();
  }
}

Result<void> ShardedGradients::kept_failure() const {
  if (own_failure_) std::rethrow_exception(own_failure_);
  if (error_) return tl::unexpected(*error_);
  return {};
}

std::int64_t ShardedGradients::largest_bucket_bytes() const {
  std::int64_t bytes = 0;
  for (const Bucket& bucket : buckets_) bytes = std::max(bytes, bucket.exchange.bytes());
  return bytes;
}

std::uint64_t ShardedGradients::exchanged_bytes() const {
  std::uint64_t bytes = 0;
  for (const Bucket& bucket : buckets_) bytes += bucket.exchange.exchanged_bytes();
  return bytes;
}

}  // namespace trainyard::strategy
