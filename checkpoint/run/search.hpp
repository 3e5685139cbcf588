#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/claim.hpp"
#include "checkpoint/run/candidates.hpp"
#include "checkpoint/run/inventory.hpp"
#include "checkpoint/run/run_context.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

/// True for errors that concern one object, so that another candidate may do. False for errors of the store as a whole.
[[nodiscard]] bool is_damage(ErrorKind kind);

/// Rank 0's search for the best candidate under a prefix. The stores outlive it.
class Search {
 public:
  /// Searches the run's own prefix, and `copies` on the nodes. Errors of check_may_claim().
  [[nodiscard]] static Result<Search> begin(const RunContext& context, CopiesByKeeper copies = {});
  /// Searches another place. The checkpoints of every job there are candidates.
  [[nodiscard]] static Result<Search> begin(const Origin& origin);

  /// The generation to claim. Reads the claims again, since another run may have claimed while the state was loaded.
  /// Errors of check_may_claim(); already_exists when the claims have changed since the candidates were listed.
  [[nodiscard]] Result<std::int64_t> next_generation();

  struct Offer {
    std::optional<Candidate> local;     ///< Copies on nodes. Only their keepers can read them.
    std::string manifest_text;          ///< Else the manifest of a remote checkpoint. Empty: no candidate is left.
    std::vector<std::string> skipped;   ///< The damaged candidates before this one, each with the reason.
    bool has_skipped_complete = false;  ///< One of the skipped had been complete: its manifest was not merely torn.
  };
  /// Lists the prefix again, and makes next() begin with the best candidate again. True if there is a new candidate
  /// there or among `copies`. Reads open claims
  /// again, since their runs may have saved; ignores claims made since begin().
  [[nodiscard]] Result<bool> refresh(CopiesByKeeper copies = {});

  /// Makes next() offer `local` again, without the copies of `keepers`, if any copies remain.
  void skip_keepers(Candidate local, const std::vector<std::int64_t>& keepers);

  /// One sentence for each copy that is no candidate, with the reason.
  [[nodiscard]] std::vector<std::string> rejections() const;

  /// The next candidate. A remote one's data files exist in their sizes. ErrorKind::invalid when it is of another model
  /// or training set, under the run's own prefix.
  [[nodiscard]] Result<Offer> next();

  [[nodiscard]] const Inventory& inventory() const { return inventory_; }

 private:
  Search(storage::Store& store, const Clock* clock, std::optional<Identity> resumer, bool resumes_others,
         Inventory inventory, CopiesByKeeper copies)
      : store_{&store},
        clock_{clock},
        resumer_{std::move(resumer)},
        resumes_others_{resumes_others},
        inventory_{std::move(inventory)},
        copies_{std::move(copies)} {}
  void list_candidates();

  [[nodiscard]] Result<void> check_succession();

  storage::Store* store_;
  const Clock* clock_;               // nullptr for an origin, where nothing is claimed.
  std::optional<Identity> resumer_;  // Nothing for an origin: every job's checkpoints are candidates.
  bool resumes_others_;
  Inventory inventory_;
  CopiesByKeeper copies_;
  std::vector<Candidate> left_;  // The best last: next() takes from the end.
};

}  // namespace trainyard::checkpoint
