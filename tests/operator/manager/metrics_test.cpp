#include "operator/manager/metrics.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace trainyard::manager {
namespace {

using api::Phase;
using testing::HasSubstr;

TEST(MetricsPage, IsPrometheusText) {
  const std::string page = metrics_page({.is_leader = true,
                                         .reconciles = 12,
                                         .reconcile_errors = 3,
                                         .queue_size = 4,
                                         .watch_restarts = 5,
                                         .jobs_by_phase = {{Phase::none, 1}, {Phase::running, 2}}});
  for (const char* line : {"# TYPE trainyard_operator_reconciles_total counter\n", "trainyard_operator_leader 1\n",
                           "trainyard_operator_reconciles_total 12\n", "trainyard_operator_reconcile_errors_total 3\n",
                           "trainyard_operator_queue_depth 4\n", "trainyard_operator_watch_restarts_total 5\n",
                           "trainyard_jobs{phase=\"Running\"} 2\n", "trainyard_jobs{phase=\"New\"} 1\n"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
  for (const char* name :
       {"operator_reconciles_total", "operator_reconcile_errors_total", "operator_watch_restarts_total"})
    EXPECT_THAT(page, HasSubstr(fmt::format("# TYPE trainyard_{} counter\n", name)));
  for (const char* name : {"operator_leader", "operator_queue_depth", "jobs"})
    EXPECT_THAT(page, HasSubstr(fmt::format("# TYPE trainyard_{} gauge\n", name)));
}

TEST(MetricsPage, ShowsZeroForAReplicaThatDoesNotLead) {
  const std::string page = metrics_page({.is_leader = false, .reconciles = 12});
  EXPECT_THAT(page, HasSubstr("trainyard_operator_leader 0\n"));
  EXPECT_THAT(page, HasSubstr("trainyard_operator_reconciles_total 12\n"));
  EXPECT_THAT(page, testing::Not(HasSubstr("trainyard_jobs{")));
}

}  // namespace
}  // namespace trainyard::manager
