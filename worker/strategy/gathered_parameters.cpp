#include "worker/strategy/gathered_parameters.hpp"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "include/trainyard/options.hpp"
#include "worker/dist/process_settings.hpp"
#include "worker/strategy/exchange_failed.hpp"

namespace trainyard::strategy {
namespace {

constexpr std::int64_t kept_bytes_max = 32 << 20;  // Memory of freed parameters that is not returned yet.

/// Throws InvalidJob unless each parameter has memory of its own.
void check_memory(const NamedTensors& parameters) {
  std::map<const void*, std::string> names;  // by memory
  for (const auto& [name, parameter] : parameters) {
    if (parameter.numel() == 0) continue;
    const auto [known, is_new] = names.emplace(parameter.storage().unsafeGetStorageImpl(), name);
    if (!is_new) {
      throw InvalidJob{
          fmt::format("training.strategy.shardParameters cannot free the parameter {}, which is in the memory of the "
                      "parameter {}: register one tensor under both names, or give each its own memory",
                      name, known->second)};
    }
    if (parameter.storage().nbytes() != parameter.nbytes()) {
      throw InvalidJob{fmt::format(
          "training.strategy.shardParameters cannot free the parameter {}, which is {} bytes in a memory of "
          "{}: register a clone() of it",
          name, parameter.nbytes(), parameter.storage().nbytes())};
    }
  }
}

}  // namespace

GatheredParameters::GatheredParameters(const NamedTensors& parameters, ShardedGradients& gradients,
                                       const c10::intrusive_ptr<c10d::ProcessGroup>& process_group,
                                       checkpoint::Communicator& communicator, WaitForWork follow)
    : gradients_{gradients}, communicator_{communicator}, follow_{std::move(follow)} {
  check_memory(parameters);
  bucket_of_.resize(parameters.size());
  MemoryProvider& provider = *this;
  for (const auto& [name, parameter] : parameters) {
    names_.push_back(name);
    memory_.push_back(parameter.numel() == 0 ? nullptr
                                             : std::make_unique<MemoryOnDemand>(parameter, provider, memory_.size()));
  }
  for (const BucketIndices& indices : gradients.buckets()) {
    std::vector<torch::Tensor> rows, whole;
    std::vector<std::vector<RowRange>> rows_of_ranks;
    std::vector<MemoryOnDemand*> memory;
    for (const std::size_t index : indices) {
      bucket_of_[index] = buckets_.size();
      rows.push_back(gradients.shards()[index].rows.detach());
      whole.push_back(parameters[index].second.variable_data());
      rows_of_ranks.push_back(gradients.rows_of_ranks()[index]);
      if (memory_[index]) memory.push_back(memory_[index].get());
    }
    RowExchange exchange{whole, std::move(rows_of_ranks), process_group, FreedMemory::returned};
    buckets_.push_back({.indices = indices,
                        .rows = std::move(rows),
                        .whole = std::move(whole),
                        .memory = std::move(memory),
                        .exchange = std::move(exchange)});
  }
}

GatheredParameters::~GatheredParameters() = default;

void GatheredParameters::begin(Pass pass) {
  pass_ = pass;
  is_open_ = true;
}

void GatheredParameters::leave() {
  is_open_ = false;
}

Result<void> GatheredParameters::end() {
  leave();
  try {
    if (failure_) return tl::unexpected(*failure_);
    const torch::NoGradGuard no_grad;
    const NoOperatorAsks none_asks;
    while (!make_round({.has_ended = true, .full_gradients = gradients_.full_buckets(), .buckets = {}})) {
    }
  } catch (const ExchangeFailed& failed) {
    return tl::unexpected(failed.error());
  }
  return {};
}

void GatheredParameters::drop() {
  for (Bucket& bucket : buckets_) drop(bucket);
  last_buckets_.clear();
}

void GatheredParameters::take_rows() {
  const torch::NoGradGuard no_grad;
  const auto rank = static_cast<std::size_t>(communicator_.rank());
  std::int64_t kept_bytes = 0;
  for (Bucket& bucket : buckets_) {
    for (const std::size_t index : bucket.indices) {
      const ParameterShard& shard = gradients_.shards()[index];
      shard.rows.detach().copy_(rows_of(shard.parameter.detach(), gradients_.rows_of_ranks()[index][rank]));
    }
    drop(bucket);
    // The model's constructor took this memory from the process's allocator, which keeps it until it is told otherwise.
    kept_bytes += bucket.exchange.bytes();
    if (kept_bytes < kept_bytes_max && &bucket != &buckets_.back()) continue;
    dist::return_freed_memory();
    kept_bytes = 0;
  }
  last_buckets_.clear();
}

Result<void> GatheredParameters::make_whole() {
  try {
    const torch::NoGradGuard no_grad;
    const NoOperatorAsks none_asks;
    for (Bucket& bucket : buckets_) {
      if (bucket.is_there) continue;
      begin_gather(bucket);
      finish_gather(bucket);
    }
  } catch (const ExchangeFailed& failed) {
    return tl::unexpected(failed.error());
  }
  return {};
}

void GatheredParameters::provide(const std::vector<std::size_t>& places) {
  if (!is_open_) {
    throw std::runtime_error{fmt::format(
        "the parameter {} was used outside of a training step and a validation, where no rank has it whole, "
        "because the job has training.strategy.shardParameters: use it in a step, or leave the field out",
        names_[places.front()])};
  }
  const torch::NoGradGuard no_grad;
  Wish wish{.has_ended = false, .full_gradients = gradients_.full_buckets(), .buckets = {}};
  for (const std::size_t place : places) {
    const std::size_t bucket = bucket_of_[place];
    if (std::ranges::find(wish.buckets, bucket) == wish.buckets.end()) wish.buckets.push_back(bucket);
  }
  static_cast<void>(make_round(wish));
}

bool GatheredParameters::make_round(const Wish& wish) {
  if (failure_) throw ExchangeFailed{*failure_};
  try {
    const Agreed agreed = agree(wish);
    for (std::size_t index = 0; index < buckets_.size(); ++index) {
      const bool is_kept = agreed.buckets.contains(index) || last_buckets_.contains(index);
      if (!is_kept && index != early_) drop(buckets_[index]);
    }
    finish_early_gather();
    for (const std::size_t index : agreed.buckets) {
      if (buckets_[index].is_there) continue;
      begin_gather(buckets_[index]);
      finish_gather(buckets_[index]);
    }
    gradients_.send_up_to(agreed.full_gradients);
    if (!agreed.buckets.empty()) {
      for (const std::size_t index : agreed.buckets) {
        if (last_buckets_.empty() || last_buckets_.contains(index)) continue;
        next_[{pass_, *last_buckets_.begin()}] = index;
        break;
      }
      last_buckets_ = agreed.buckets;
      gather_early();
    }
    return agreed.have_all_ended;
  } catch (const ExchangeFailed& failed) {
    failure_ = failed.error();
    throw;
  }
}

/// Nothing when `text` is no message of a rank in a round.
std::optional<GatheredParameters::Wish> GatheredParameters::read_wish(const std::string& text) const {
  const auto message = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!message.is_array() || message.size() != 3) return std::nullopt;
  const auto &has_ended = message[0], &full_gradients = message[1], &buckets = message[2];
  if (!has_ended.is_boolean() || !full_gradients.is_number_unsigned() || !buckets.is_array()) return std::nullopt;
  Wish wish{.has_ended = has_ended.get<bool>(), .full_gradients = full_gradients.get<std::size_t>(), .buckets = {}};
  for (const auto& bucket : buckets) {
    if (!bucket.is_number_unsigned() || bucket.get<std::size_t>() >= buckets_.size()) return std::nullopt;
    wish.buckets.push_back(bucket.get<std::size_t>());
  }
  return wish;
}

/// Returns an equal value on all ranks. Throws ExchangeFailed.
GatheredParameters::Agreed GatheredParameters::agree(const Wish& wish) {
  const std::string mine = nlohmann::json{wish.has_ended, wish.full_gradients, wish.buckets}.dump();
  const auto texts = communicator_.all_gather(mine);
  if (!texts) {
    const std::string what = wish.buckets.empty() ? "for the other ranks to end their pass"
                                                  : fmt::format("for the parameters of the bucket of {}",
                                                                names_[buckets_[wish.buckets.front()].indices.front()]);
    throw ExchangeFailed{{.kind = texts.error().kind,
                          .message = fmt::format("the ranks' round {}: {}", what, texts.error().message),
                          .retry_after = {}}};
  }
  Agreed agreed{.full_gradients = std::numeric_limits<std::size_t>::max()};
  for (std::size_t rank = 0; rank < texts->size(); ++rank) {
    const auto of_rank = read_wish((*texts)[rank]);
    if (!of_rank) {
      throw ExchangeFailed{
          {.kind = ErrorKind::invalid,
           .message = fmt::format("the ranks' round for parameters: rank {} sent {} bytes that are no message of a "
                                  "round over {} buckets: give all ranks one program and one model",
                                  rank, (*texts)[rank].size(), buckets_.size()),
           .retry_after = {}}};
    }
    agreed.have_all_ended = agreed.have_all_ended && of_rank->has_ended;
    agreed.full_gradients = std::min(agreed.full_gradients, of_rank->full_gradients);
    agreed.buckets.insert(of_rank->buckets.begin(), of_rank->buckets.end());
  }
  return agreed;
}

void GatheredParameters::begin_gather(Bucket& bucket) {
  work_ = bucket.exchange.begin_gather(bucket.rows);
}

void GatheredParameters::finish_gather(Bucket& bucket) {
  if (auto done = follow_(work_, "the gathering of parameters"); !done) throw ExchangeFailed{done.error()};
  work_.reset();
  bucket.exchange.free_sent();
  for (MemoryOnDemand* const memory : bucket.memory) memory->give();
  bucket.exchange.finish_gather(bucket.whole, /*sets_own_rows=*/true);
  bucket.is_there = true;
}

void GatheredParameters::finish_early_gather() {
  if (!early_) return;
  finish_gather(buckets_[*std::exchange(early_, std::nullopt)]);
}

/// Begins to gather the bucket that came next in the last pass of this kind.
void GatheredParameters::gather_early() {
  const auto next = next_.find({pass_, *last_buckets_.begin()});
  if (next == next_.end() || buckets_[next->second].is_there) return;
  begin_gather(buckets_[next->second]);
  early_ = next->second;
}

void GatheredParameters::drop(Bucket& bucket) {
  for (MemoryOnDemand* const memory : bucket.memory) memory->take_away();
  bucket.is_there = false;
}

std::uint64_t GatheredParameters::exchanged_bytes() const {
  std::uint64_t bytes = 0;
  for (const Bucket& bucket : buckets_) bytes += bucket.exchange.exchanged_bytes();
  return bytes;
}

}  // namespace trainyard::strategy
