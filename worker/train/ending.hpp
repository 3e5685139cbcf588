#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "common/result.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::train {

/// A value, or how this rank must end.
template <typename T>
using OrEnd = tl::expected<T, rank::RankEnd>;

/// What was being done when an error came: it decides what the error means for the job.
enum class Stage {
  spec,        ///< Reading the job's spec and making the model.
  device,      ///< Finding the GPU that this rank is to train on.
  rendezvous,  ///< Meeting the other ranks.
  data,        ///< Finding and reading the data.
  checkpoint,  ///< Finding the place of the checkpoints, and restoring.
  save,        ///< Saving, to a place that has let this run in before.
  step,        ///< Talking to the other ranks while training.
};

/// The exit code and reason for `error`. A wrong input ends with contract::exit_do_not_restart; storage that did not
/// answer with exit_storage, a GPU that the node did not give with exit_device. Pure. The group's own failure takes
/// precedence and is for the caller to look at (RankLink::group_failure).
[[nodiscard]] rank::RankEnd end_of(Stage stage, const Error& error);

/// Where training stands that is left because a rank was asked to stop.
struct Stop {
  std::int64_t step = 0;
  bool has_trained = false;  ///< A step of this attempt.
  bool is_saving = false;    ///< Checkpoints are made.
  std::string saved_as;      ///< The checkpoint of `step`; empty: there is none.
};

/// The end of a rank that was asked to stop. Pure.
[[nodiscard]] rank::RankEnd preempted(const Stop& stop);

/// The end of a rank that has trained to the end, with the metrics of the last validation. Pure.
[[nodiscard]] rank::RankEnd completed(std::int64_t step, const std::map<std::string, double>& validation);

/// end_of() for `return`.
[[nodiscard]] tl::unexpected<rank::RankEnd> end_rank(Stage stage, const Error& error);

}  // namespace trainyard::train
