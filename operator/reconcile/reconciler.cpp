#include "operator/reconcile/reconciler.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/logging.hpp"
#include "operator/plan/plan.hpp"
#include "operator/reconcile/executor.hpp"
#include "operator/reconcile/memory.hpp"
#include "operator/reconcile/observe.hpp"

namespace trainyard::reconcile {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds at_once{0};
constexpr milliseconds stale_wait{1'000};  // For the caches to learn what the server has told us.

/// Versions are decimal numbers without leading zeros: the longer is the larger.
bool is_older(const std::string& version, const std::string& than) {
  return version.size() != than.size() ? version.size() < than.size() : version < than;
}

}  // namespace

class Reconciler::Impl {
 public:
  Impl(kube::Api& api, const Clock& clock, Caches& caches, const ProgressSource& progress, ReconcilerOptions options)
      : clock_{clock},
        caches_{caches},
        progress_{progress},
        options_{std::move(options)},
        executor_{api, clock, caches, memory_, options_} {}

  Result<std::optional<milliseconds>> reconcile(const control::ObjectKey& key) {
    const auto job = caches_.jobs.find(key);
    if (!job) {
      memory_.forget(key);
      return std::nullopt;
    }
    const JobMemory memory = memory_.recall(key, job->metadata.uid);
    if (is_older(job->metadata.resource_version, memory.written_version)) return catch_up(*job);
    const plan::Plan plan = plan::make_plan(observe(*job, caches_, memory, progress_, options_), clock_.now());
    if (plan.is_stale) return catch_up(*job);
    return carry_out(*job, plan);
  }

 private:
  /// The cache is behind what we did ourselves. Nothing is decided on it.
  Result<std::optional<milliseconds>> catch_up(const resource::TrainingJob& job) {
    const std::string name = fmt::format("{}/{}", job.metadata.name_space, job.metadata.name);
    logging::warn("the cached job is out of date", {{"job", name}, {"attempt", job.status.attempt}});
    if (auto reread = executor_.reread(job); !reread) {
      if (reread.error().kind == ErrorKind::not_found) return std::nullopt;
      return tl::unexpected(reread.error());
    }
    const auto now_cached = caches_.jobs.find({.name_space = job.metadata.name_space, .name = job.metadata.name});
    const bool has_moved = now_cached && now_cached->metadata.resource_version != job.metadata.resource_version;
    return has_moved ? at_once : stale_wait;
  }

  Result<std::optional<milliseconds>> carry_out(const resource::TrainingJob& job, const plan::Plan& plan) {
    const auto gone = executor_.are_gone(job, plan.pods_believed_gone);
    if (!gone) return tl::unexpected(gone.error());
    if (!*gone) return stale_wait;
    if (plan.status) {
      if (auto written = executor_.write_status(job, *plan.status); !written) {
        if (written.error().kind == ErrorKind::conflict) return at_once;
        if (written.error().kind == ErrorKind::not_found) return std::nullopt;
        return tl::unexpected(written.error());
      }
    }
    const auto acted = executor_.act(job, plan.actions);
    // The status that they tell of is stored, whatever became of the actions.
    executor_.tell(job, plan.events);
    if (!acted) return tl::unexpected(acted.error());
    // What was done may have made the next step possible.
    if (plan.status || !plan.actions.empty()) return at_once;
    return plan.requeue_after;
  }

  const Clock& clock_;
  Caches& caches_;
  const ProgressSource& progress_;
  const ReconcilerOptions options_;
  Memory memory_;
  Executor executor_;
};

Reconciler::Reconciler(kube::Api& api, const Clock& clock, Caches& caches, const ProgressSource& progress,
                       ReconcilerOptions options)
    : impl_{std::make_unique<Impl>(api, clock, caches, progress, std::move(options))} {}

Reconciler::~Reconciler() = default;

Result<std::optional<milliseconds>> Reconciler::reconcile(const control::ObjectKey& key) {
  return impl_->reconcile(key);
}

}  // namespace trainyard::reconcile
