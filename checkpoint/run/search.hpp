#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/identity.hpp"
#include "checkpoint/run/candidates.hpp"
#include "checkpoint/run/inventory.hpp"
#include "checkpoint/run/run_context.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

/// Whether an error means that this one object is damaged, so that another checkpoint may do, and not that the store
/// cannot be used.
[[nodiscard]] bool is_damage(ErrorKind kind);

/// Rank 0's look through a prefix for what may be resumed, newest first. The stores outlive it.
class Search {
 public:
  /// Of the run's own prefix, and of `copies` of it on the nodes. Errors as of check_may_follow().
  [[nodiscard]] static Result<Search> begin(const RunContext& context, CopiesByKeeper copies = {});
  /// Of what any job saved there.
  [[nodiscard]] static Result<Search> begin(const Origin& origin);

  /// The generation that this run may claim now: looks at the claims once more, since others may have come while the
  /// state was loaded. Errors of check_may_follow(); already_exists when the claims are no longer those by which the
  /// choice was made.
  [[nodiscard]] Result<std::int64_t> next_generation();

  struct Offer {
    std::optional<Candidate> local;     ///< A copy on nodes, of which only they know more.
    std::string manifest_text;          ///< Else of a remote one. Empty: there is no other.
    std::vector<std::string> skipped;   ///< What was found damaged on the way.
    bool has_skipped_complete = false;  ///< One of these had been complete, and was not merely never finished.
  };
  /// Looks at the prefix again, and says whether there is something to resume, there or among `copies`, that was not
  /// there before; then next() begins with the newest again. Claims that were made meanwhile are not heeded.
  [[nodiscard]] Result<bool> refresh(CopiesByKeeper copies = {});

  /// Offers the copies of `local` again, but those that these keepers have.
  void skip_keepers(Candidate local, const std::vector<std::int64_t>& keepers);

  /// Why copies on the nodes are not offered: one sentence each, of those that were looked at last.
  [[nodiscard]] std::vector<std::string> rejections() const;

  /// The next manifest whose files are all there in their sizes. ErrorKind::invalid when it is of a job with another
  /// model or data, under the run's own prefix.
  [[nodiscard]] Result<Offer> next();

  [[nodiscard]] const Inventory& inventory() const { return inventory_; }

 private:
  Search(storage::Store& store, const Clock* clock, std::optional<Identity> resumer, bool resumes_others,
         Inventory inventory, CopiesByKeeper copies)
      : store_(&store),
        clock_(clock),
        resumer_(std::move(resumer)),
        resumes_others_(resumes_others),
        inventory_(std::move(inventory)),
        copies_(std::move(copies)) {}
  void list_candidates();

  [[nodiscard]] Result<void> check_succession();

  storage::Store* store_;
  const Clock* clock_;               // nullptr for an origin, which is claimed by nobody.
  std::optional<Identity> resumer_;  // Nothing: whoever resumes, any job's will do.
  bool resumes_others_;
  Inventory inventory_;
  CopiesByKeeper copies_;
  std::vector<Candidate> left_;  // The best last: the next is taken off the end.
};

}  // namespace trainyard::checkpoint
