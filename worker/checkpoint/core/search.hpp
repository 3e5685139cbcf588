#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "worker/checkpoint/core/inventory.hpp"
#include "worker/checkpoint/core/run_context.hpp"

namespace trainyard::checkpoint {

/// Whether an error means that this one object is damaged, so that another checkpoint may do, and not that the store
/// cannot be used.
[[nodiscard]] bool is_damage(ErrorKind kind);

/// Rank 0's look through a prefix for what may be resumed, newest first.
class Search {
 public:
  /// Errors as of check_may_follow().
  [[nodiscard]] static Result<Search> begin(const RunContext& context);

  struct Offer {
    std::string manifest_text;         ///< Empty: there is no other.
    std::vector<std::string> skipped;  ///< What was found damaged on the way.
    bool has_lost = false;             ///< One of these had been complete, and was not merely never finished.
  };
  /// The next manifest whose files are all there in their sizes. ErrorKind::invalid when it is of a job with another
  /// model or data.
  [[nodiscard]] Result<Offer> next(const RunContext& context);

  [[nodiscard]] const Inventory& inventory() const { return inventory_; }

 private:
  explicit Search(Inventory inventory) : inventory_(std::move(inventory)) {}

  Inventory inventory_;
  std::vector<CheckpointId> left_;  // Oldest first: the next is taken off the end.
};

}  // namespace trainyard::checkpoint
