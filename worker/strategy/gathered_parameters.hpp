#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"
#include "worker/strategy/bucket_assignment.hpp"
#include "worker/strategy/memory_on_demand.hpp"
#include "worker/strategy/row_exchange.hpp"
#include "worker/strategy/sharded_gradients.hpp"
#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::strategy {

/// The time in which operators may use parameters.
enum class Pass {
  forward,
  backward,
  reading,  ///< A validation, or another use between steps.
};

/// Gives each rank whole parameters while operators use them, and only this rank's rows otherwise.
///
/// An operator that needs a bucket which is not there begins a round: the ranks gather the buckets that any of them
/// needs, and send the buckets of gradients that are full on all of them. A rank that has ended its pass takes part
/// until all ranks have ended theirs. So all ranks issue the collectives of a pass in one order (docs/design-worker.md,
/// "How does a layer get parameters that no rank has?").
///
/// Used from the training thread, and from that of its backward passes.
class GatheredParameters final : private MemoryProvider {
 public:
  /// `gradients` is made with has_own_rows, and outlives the object, as `communicator` does. All parameters are whole
  /// until drop(). From then on an operator of this thread that uses one outside of a pass throws. Throws InvalidJob
  /// for parameters that share memory.
  GatheredParameters(const NamedTensors& parameters, ShardedGradients& gradients,
                     const c10::intrusive_ptr<c10d::ProcessGroup>& process_group,
                     checkpoint::Communicator& communicator, WaitForWork follow);
  /// The parameters have no memory afterwards.
  ~GatheredParameters() override;
  GatheredParameters(const GatheredParameters&) = delete;
  GatheredParameters& operator=(const GatheredParameters&) = delete;

  /// From now on operators of this thread, and those of its backward passes, may use the parameters. An operator throws
  /// ExchangeFailed when a peer is lost while its parameters are gathered.
  void begin(Pass pass);
  /// Ends the pass without the other ranks, because it has failed here.
  void leave();
  /// Ends the pass, after all ranks have ended theirs. Errors: those of the group.
  [[nodiscard]] Result<void> end();
  /// Frees all but this rank's rows. Between passes only.
  void drop();
  /// Makes this rank's rows those of the whole parameters, and frees all else. Before the first call the rows' values
  /// are undefined.
  void take_rows();
  /// Makes the parameters whole until the next drop() or take_rows(). Between passes only.
  [[nodiscard]] Result<void> make_whole();

  [[nodiscard]] std::uint64_t exchanged_bytes() const;

 private:
  struct Bucket {
    BucketIndices indices;             // of its parameters
    std::vector<torch::Tensor> rows;   // this rank's
    std::vector<torch::Tensor> whole;  // with versions of their own: autograd takes no gathering for a change
    std::vector<MemoryOnDemand*> memory;
    RowExchange exchange;
    bool is_there = true;  // equal on all ranks
  };
  /// A rank's message in a round.
  struct Wish {
    bool has_ended = false;
    std::size_t full_gradients = 0;
    std::vector<std::size_t> buckets;
  };
  struct Agreed {
    bool have_all_ended = true;
    std::size_t full_gradients = 0;
    std::set<std::size_t> buckets;
  };

  void provide(const std::vector<std::size_t>& places) override;
  /// True when all ranks have ended their pass. Throws ExchangeFailed.
  [[nodiscard]] bool make_round(const Wish& wish);
  [[nodiscard]] std::optional<Wish> read_wish(const std::string& text) const;
  [[nodiscard]] Agreed agree(const Wish& wish);
  void begin_gather(Bucket& bucket);
  void finish_gather(Bucket& bucket);
  void finish_early_gather();
  void gather_early();
  static void drop(Bucket& bucket);

  ShardedGradients& gradients_;
  checkpoint::Communicator& communicator_;
  WaitForWork follow_;
  std::vector<std::unique_ptr<MemoryOnDemand>> memory_;  // by parameter
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // by parameter
  std::vector<std::string> names_;      // by parameter
  OperatorsAsk operators_ask_;
  Pass pass_ = Pass::forward;
  bool is_open_ = false;
  std::set<std::size_t> last_buckets_;                        // of the last round that had any
  std::map<std::pair<Pass, std::size_t>, std::size_t> next_;  // the bucket that came after this one, last time
  std::optional<std::size_t> early_;                          // the bucket that is gathered ahead
  c10::intrusive_ptr<c10d::Work> work_;                       // of the gathering under way
  std::optional<Error> failure_;                              // after it nothing is gathered
};

}  // namespace trainyard::strategy
