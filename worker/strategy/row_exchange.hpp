#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/strategy/freed_memory.hpp"
#include "worker/strategy/row_shards.hpp"

namespace trainyard::strategy {

/// `rows` of `tensor`, as a view: along its first dimension, or of a scalar as of one row.
[[nodiscard]] torch::Tensor rows_of(const torch::Tensor& tensor, const RowRange& rows);

/// Sends the gradients of some parameters, or the parameters themselves, between ranks that each have some rows of each
/// parameter. Each exchange is one collective in which every rank sends each other rank one chunk: Gloo has no other
/// way that moves as few bytes, and a rank adds up what it receives in the order of the ranks, so that the sum's bits
/// do not depend on the bucket. All ranks make the same calls in the same order, one exchange at a time.
class RowExchange {
 public:
  /// `parameters`: of one type on one device; the rows of each lie one after the other in memory. `rows`: of each rank,
  /// by parameter. `freed`: what becomes of the memory of what was sent and received.
  RowExchange(std::vector<torch::Tensor> parameters, std::vector<std::vector<RowRange>> rows,
              c10::intrusive_ptr<c10d::ProcessGroup> process_group, FreedMemory freed);

  /// Starts to send each rank the gradients of its rows, multiplied by `scale`, and frees the gradients. A parameter
  /// without a gradient sends zeros. Throws ExchangeFailed where the collective cannot start for the loss of a peer,
  /// and what this rank's own device or program throws.
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> begin_reduce(double scale);
  struct Reduced {
    std::vector<torch::Tensor> gradients;  ///< Gradients of this rank's rows, by parameter: the sum over the ranks.
    torch::Tensor used;                    ///< By parameter: the number of ranks that had a gradient.
  };
  /// To be called once the current stream is ordered after the work of begin_reduce(), or that work is done.
  [[nodiscard]] Reduced finish_reduce();

  /// Starts to send all ranks `rows`, this rank's rows of each parameter. Throws as begin_reduce().
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> begin_gather(const std::vector<torch::Tensor>& rows);
  /// Frees what was sent. May be called between the end of begin_gather()'s work and finish_gather(), to save memory.
  void free_sent() { sent_.reset(); }
  /// As finish_reduce(). `to`, tensors like the parameters, then have the rows of the other ranks, and with
  /// `sets_own_rows` this rank's too.
  void finish_gather(const std::vector<torch::Tensor>& to, bool sets_own_rows);

  /// The bytes of the parameters.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  /// The bytes of all tensors that this rank has given to collectives.
  [[nodiscard]] std::uint64_t exchanged_bytes() const { return exchanged_bytes_; }

 private:
  [[nodiscard]] torch::Tensor make_buffer_of(std::int64_t count) const;
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> exchange(std::vector<std::int64_t> sent,
                                                        std::vector<std::int64_t> received);

  std::vector<torch::Tensor> parameters_;     // without history
  std::vector<torch::Tensor> with_gradient_;  // the same, as the program has them
  std::vector<std::vector<RowRange>> rows_;   // by parameter, then by rank
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  FreedMemory freed_;
  std::size_t rank_;
  std::size_t world_size_;
  std::vector<std::int64_t> counts_;  // by rank: the numbers of its rows
  std::int64_t bytes_ = 0;
  std::uint64_t exchanged_bytes_ = 0;
  torch::Tensor sent_;  // while an exchange is under way, like the next
  torch::Tensor received_;
};

}  // namespace trainyard::strategy
