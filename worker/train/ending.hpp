#pragma once

#include <tl/expected.hpp>

#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::train {

/// A value, or the end that this rank must come to.
template <typename T>
using OrEnd = tl::expected<T, rank::RankEnd>;

/// The work during which an error came. It decides how the error is judged: as the job's fault or not.
enum class Stage {
  spec,        ///< Reading the job's spec and making the model.
  device,      ///< Finding the GPU that this rank is to train on.
  rendezvous,  ///< Forming the group.
  data,        ///< Finding and reading the data.
  checkpoint,  ///< Opening the checkpoints, and restoring.
  save,        ///< Saving, to a storage that has let this run in before.
  step,        ///< Exchanging data with the other ranks while training.
};

/// The exit code and reason for `error`: exit_do_not_restart for a wrong input, exit_storage for storage that did not
/// answer, exit_device for a GPU that the node lacks. Pure. The caller checks RankLink::group_failure first, which
/// takes precedence.
[[nodiscard]] rank::RankEnd end_of(Stage stage, const Error& error);

/// Where training was when a rank was asked to stop.
struct Stop {
  std::int64_t step = 0;
  bool has_trained = false;  ///< This attempt has made a step.
  bool is_saving = false;    ///< The job saves checkpoints.
  std::string saved_as;      ///< URI of the checkpoint of `step`; empty: there is none.
};

/// The end of a rank that was asked to stop. Pure.
[[nodiscard]] rank::RankEnd preempted(const Stop& stop);

/// A training that has come to its end.
struct Completion {
  std::int64_t step = 0;
  std::optional<double> loss{};                ///< Loss of the last log line; nothing when this attempt made no step.
  std::map<std::string, double> validation{};  ///< The metrics of the last validation.
  std::string reason_to_stop{};                ///< Why it ended before its last step; empty: it did not.
  /// The steps of this attempt that changed nothing, because a loss was not finite; nothing where such steps train on.
  std::optional<std::int64_t> skipped_steps{};
};

/// The end of a rank that has completed the training. Pure.
[[nodiscard]] rank::RankEnd completed(const Completion& completion);

/// The end of a run whose training had come to its end before, at the checkpoint `uri`. `is_ended_early`: not by
/// training.epochs or maxSteps, but by a callback or earlyStopping. Pure.
[[nodiscard]] rank::RankEnd already_complete(const std::string& uri, bool is_ended_early);

/// A step in which the loss of some rank was not finite.
struct NonFiniteStep {
  std::int64_t step = 0;  ///< From 1.
  std::int64_t rank = 0;  ///< The first rank with such a loss.
  double loss = 0.0;
  std::string turn{};       ///< The optimizer in whose turn it came; empty where there is only one.
  bool is_rewound = false;  ///< The group is to go on from its newest checkpoint; else the job is to fail.
};

/// The end of every rank after such a step: exit_failure, charged to the application, when the group is to be
/// restarted, and exit_do_not_restart when the job is to fail. Pure.
[[nodiscard]] rank::RankEnd ended_by(const NonFiniteStep& bad);

/// end_of() as an error to return.
[[nodiscard]] tl::unexpected<rank::RankEnd> end_rank(Stage stage, const Error& error);

/// How this rank ends after `error`. A lost rank may have caused the error: then the result is the launcher's report of
/// that rank, for which it waits up to two seconds.
[[nodiscard]] tl::unexpected<rank::RankEnd> lost(const rank::RankLink& link, Stage stage, const Error& error);

/// The end of a rank whose training threw `thrown`, of whatever type: exit_do_not_restart for an InvalidJob,
/// exit_device where its GPU or driver has failed, exit_peer_lost where the connection to another rank was lost, and
/// exit_failure otherwise. `device` names the rank's device and node in the message, and `call` the call that threw, as
/// failed_call() does. The caller checks RankLink::group_failure first, which takes precedence.
[[nodiscard]] rank::RankEnd end_of_exception(const std::exception_ptr& thrown, const std::string& device,
                                             const std::string& call = {});

}  // namespace trainyard::train
