#include "cli/checkpoint_request.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <thread>

#include "cli/request_box.hpp"
#include "cli/run_folder.hpp"
#include "local/memory_api.hpp"
#include "operator/plan/checkpoint_request.hpp"
#include "tests/builders/a_job.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/refusing_api.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::cli {
namespace {

using kube::json;
using resource::CheckpointRequest;
using resource::RequestState;
using testing::HasSubstr;
using namespace std::chrono_literals;

class RequestInCluster : public testing::Test {
 protected:
  void apply() { ASSERT_TRUE(api_.create(kube::training_jobs, "research", builders::a_job().manifest())); }
  /// What the operator makes of it, whenever it does.
  void answer(const CheckpointRequest& request) {
    resource::TrainingJobStatus status;
    status.checkpoint_request = request;
    const json object{{"metadata", {{"name", "smoke"}}}, {"status", resource::to_json(status)}};
    ASSERT_TRUE(api_.update_status(kube::training_jobs, "research", object));
  }
  Result<std::string> request(std::chrono::milliseconds timeout = 0ms, bool is_sent_only = false) {
    return request_in_cluster(
        api_, "research", {.job = "smoke", .cluster = {}, .timeout = timeout, .is_sent_only = is_sent_only}, "ours");
  }

  fakes::FakeClock clock_;
  local::MemoryApi api_{clock_};
};

TEST_F(RequestInCluster, WritesTheAnnotationAndTellsTheAnswer) {
  apply();
  answer({.id = "ours", .state = RequestState::done, .step = 1200, .uri = "s3://m/step-1200/g-1"});
  EXPECT_EQ(request(), "step 1200 saved: s3://m/step-1200/g-1");
  const auto job = api_.get(kube::training_jobs, "research", "smoke");
  EXPECT_EQ(job->at("metadata").at("annotations").at(std::string{plan::checkpoint_request_annotation}), "ours");
}

TEST_F(RequestInCluster, TellsWhyNoneWasMade) {
  apply();
  answer({.id = "ours", .state = RequestState::failed, .message = "spec.checkpoint is not set"});
  EXPECT_EQ(request().error().message, "no checkpoint was made: spec.checkpoint is not set");
}

TEST_F(RequestInCluster, EndsAtItsTimeoutWithWhatTheJobWaitsFor) {
  apply();
  EXPECT_EQ(request().error().message, "no answer within 0s: no operator has taken it up yet (the request stands)");
  answer({.id = "ours", .message = "rank 0 saves it"});
  EXPECT_EQ(request().error().message, "no answer within 0s: rank 0 saves it (the request stands)");
}

TEST_F(RequestInCluster, IsSentWithoutWaiting) {
  apply();
  EXPECT_EQ(request(300s, true), "request ours is sent");
}

TEST_F(RequestInCluster, NamesAJobThatIsNotThere) {
  EXPECT_EQ(request().error().message, "there is no TrainingJob smoke in the namespace research");
}

TEST(RequestInAForbiddenCluster, SaysWhatRightIsMissing) {
  struct ForbiddingApi : fakes::RefusingApi {
    Result<json> patch(const kube::ResourceType&, std::string_view, std::string_view, kube::PatchType,
                       const json&) override {
      return fail(ErrorKind::forbidden, "user jane cannot patch trainingjobs");
    }
  } api;
  EXPECT_EQ(request_in_cluster(api, "research", {.job = "smoke"}, "ours").error().message,
            "asking for a checkpoint takes the right to patch TrainingJobs in the namespace research, which the roles "
            "edit and admin have: user jane cannot patch trainingjobs");
}

class RequestOfRun : public testing::Test {
 protected:
  Result<std::string> request(std::chrono::milliseconds timeout = 60s) const {
    return request_of_run(folder_.path(), {.job = "job", .cluster = {}, .timeout = timeout}, "ours");
  }
  [[nodiscard]] static std::optional<RunFolder> begin_run(const fakes::TemporaryFolder& folder) {
    auto run = RunFolder::open(folder.path(), Time{});
    return run ? std::optional{*std::move(run)} : std::nullopt;
  }

  const fakes::TemporaryFolder folder_;
  const RequestBox box_{folder_.path()};
};

TEST_F(RequestOfRun, IsAnsweredByTheRun) {
  const auto run = begin_run(folder_);
  ASSERT_TRUE(run);
  auto asked = std::async(std::launch::async, [&] { return request(); });
  while (!box_.next()) std::this_thread::yield();
  EXPECT_EQ(box_.next(), "ours");
  ASSERT_TRUE(box_.answer({.id = "ours", .state = RequestState::done, .step = 7, .uri = "file:///c/step-7/g-1"}));
  EXPECT_EQ(asked.get(), "step 7 saved: file:///c/step-7/g-1");
}

TEST_F(RequestOfRun, EndsWithTheRun) {
  auto run = begin_run(folder_);
  ASSERT_TRUE(run);
  auto asked = std::async(std::launch::async, [&] { return request(); });
  while (!box_.next()) std::this_thread::yield();
  run.reset();
  EXPECT_THAT(asked.get().error().message, HasSubstr(" ended without an answer"));
  EXPECT_EQ(box_.next(), std::nullopt);
}

TEST_F(RequestOfRun, IsWithdrawnAtItsTimeout) {
  const auto run = begin_run(folder_);
  EXPECT_THAT(request(0ms).error().message, HasSubstr("no answer within 0s"));
  EXPECT_EQ(box_.next(), std::nullopt);
}

TEST_F(RequestOfRun, NeedsARun) {
  EXPECT_EQ(request().error().message, "no run is in progress in " + folder_.path());
}

}  // namespace
}  // namespace trainyard::cli
