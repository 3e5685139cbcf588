#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "common/result.hpp"
#include "worker/launcher/rank_link.hpp"

namespace trainyard::train {

/// A value, or how this rank must end.
template <typename T>
using OrEnd = tl::expected<T, launcher::RankEnd>;

/// What was being done when an error came: it decides what the error means for the job.
enum class Stage {
  spec,        ///< Reading the job's spec and making the model.
  rendezvous,  ///< Meeting the other ranks.
  data,        ///< Finding and reading the data.
  checkpoint,  ///< Finding the place of the checkpoints, and restoring.
  save,        ///< Saving, to a place that has let this run in before.
  step,        ///< Talking to the other ranks while training.
};

/// The exit code and reason for `error`. A wrong input ends with contract::exit_do_not_restart; storage that did not
/// answer with exit_storage. Pure. The group's own failure takes precedence and is for the caller to look at
/// (RankLink::group_failure).
[[nodiscard]] launcher::RankEnd end_of(Stage stage, const Error& error);

/// end_of() for `return`.
[[nodiscard]] tl::unexpected<launcher::RankEnd> end(Stage stage, const Error& error);

}  // namespace trainyard::train
