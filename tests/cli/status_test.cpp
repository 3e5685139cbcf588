#include "cli/status.hpp"

#include <gtest/gtest.h>

#include "local/memory_api.hpp"
#include "tests/builders/a_job.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/faulty_api.hpp"

namespace trainyard::cli {
namespace {

class ReportInCluster : public testing::Test {
 protected:
  fakes::FakeClock clock_;
  local::MemoryApi api_{clock_};
};

TEST_F(ReportInCluster, IsOfTheJobAsTheServerHasIt) {
  ASSERT_TRUE(api_.create(kube::training_jobs, "research", builders::a_job().manifest()));
  const auto report = report_in_cluster(api_, "research", "smoke");
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(*report, (JobReport{.name = "smoke", .phase = "Pending", .name_space = "research"}));
}

TEST_F(ReportInCluster, OfAnUnknownJobIsAnErrorThatNamesTheNamespace) {
  const auto report = report_in_cluster(api_, "research", "smoke");
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().message, "there is no TrainingJob smoke in the namespace research");
}

TEST_F(ReportInCluster, PassesOnWhatTheServerRefuses) {
  fakes::FaultyApi refusing{api_};
  const Error refused{.kind = ErrorKind::forbidden, .message = "you may not"};
  refusing.set_schedule([&](const fakes::ApiCall&) { return std::optional{fakes::Fault{.error = refused}}; });
  EXPECT_EQ(report_in_cluster(refusing, "research", "smoke").error(), refused);
}

}  // namespace
}  // namespace trainyard::cli
