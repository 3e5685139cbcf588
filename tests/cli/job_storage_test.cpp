// A job that `trainyard run` trains while its storage, a real S3 server behind a proxy, fails.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <functional>
#include <memory>
#include <string>

#include "api/training_job.hpp"
#include "cli/local_run.hpp"
#include "operator/plan/conditions.hpp"
#include "tests/cli/program_fixture.hpp"
#include "tests/skips.hpp"
#include "tests/storage/s3_faults.hpp"
#include "tests/storage/versitygw.hpp"

namespace trainyard::cli {
namespace {

using storage::Versitygw;

class JobStorageTest : public ProgramTest {
 protected:
  void SetUp() override {
    if (!Versitygw::is_installed()) return tests::cannot_run("versitygw is not installed: run scripts/setup cluster");
    server_ = Versitygw::start();
    ASSERT_TRUE(server_) << "versitygw does not start";
    server_->make_bucket("models");
  }
  /// A file with a job that trains until it is stopped, and saves each 5 steps to the server behind `port`.
  [[nodiscard]] std::string job_that_saves(std::uint16_t port) const {
    return folder_
        .write("job.yaml", fmt::format(R"(apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {{name: job}}
spec:
  gpusPerPod: 0
  training: {{model: {{name: fashion_cnn}}, data: {{format: synthetic, samples: 240}}, batchSize: 2, epochs: 100000,
    validateEvery: {{epochs: 100000}}}}
  checkpoint: {{uri: "s3://models/job", every: {{steps: 5}}, s3: {{endpoint: "http://127.0.0.1:{}"}}}}
  template:
    spec:
      containers:
        - name: worker
          env:
            - {{name: OMP_NUM_THREADS, value: "1"}}
            - {{name: AWS_ACCESS_KEY_ID, value: {}}}
            - {{name: AWS_SECRET_ACCESS_KEY, value: {}}}
)",
                                       port, Versitygw::access_key_id, Versitygw::secret_access_key))
        .string();
  }
  /// Waits until the status that the run has written fulfils `what`, and returns it; the last one if that takes too
  /// long.
  [[nodiscard]] api::TrainingJobStatus status_when(
      const std::function<bool(const api::TrainingJobStatus&)>& what) const {
    api::TrainingJobStatus status;
    const bool has_come = comes_true([&] {
      const auto run = read_local_run(folder_.file("trainyard-runs/job"));
      if (run && run->status) status = *run->status;
      return what(status);
    });
    EXPECT_TRUE(has_come) << out() << err();
    return status;
  }

  std::unique_ptr<Versitygw> server_;
};

const api::Condition* checkpoint_failing(const api::TrainingJobStatus& status) {
  const auto found = std::ranges::find(status.conditions, plan::condition_checkpoint_failing, &api::Condition::type);
  return found == status.conditions.end() ? nullptr : &*found;
}

std::int64_t step_of(const api::TrainingJobStatus& status) {
  return status.progress ? status.progress->step : 0;
}
std::int64_t saved_step_of(const api::TrainingJobStatus& status) {
  return status.checkpoint ? status.checkpoint->step : 0;
}

TEST_F(JobStorageTest, TheConditionCheckpointFailingShowsAStorageThatRefusesUntilASaveSucceeds) {
  std::atomic<bool> has_checkpoint = false;
  std::atomic<bool> has_room = false;
  // The storage is full once it has a checkpoint.
  storage::FaultProxy proxy{server_->port(), [&](const storage::ProxiedRequest& request) {
                              if (request.method != "PUT") return storage::Fault{};
                              if (has_checkpoint && !has_room) return storage::refuse(507, "XMinioStorageFull");
                              if (request.target.ends_with("1.saved"))
                                has_checkpoint = true;  // The last object of a save.
                              return storage::Fault{};
                            }};
  auto group = start({"run", job_that_saves(proxy.port())});
  const pid_t pid = pid_of(group);
  const auto during = status_when([](const auto& status) {
    const auto* condition = checkpoint_failing(status);
    return condition != nullptr && condition->is_true && step_of(status) > saved_step_of(status) + 15;
  });
  EXPECT_EQ(saved_step_of(during), 5);
  ASSERT_NE(checkpoint_failing(during), nullptr);
  EXPECT_EQ(checkpoint_failing(during)->reason, "SaveFailed");
  EXPECT_THAT(checkpoint_failing(during)->message, testing::HasSubstr("XMinioStorageFull"));
  has_room = true;
  const auto after = status_when([](const auto& status) {
    const auto* condition = checkpoint_failing(status);
    return condition != nullptr && !condition->is_true;
  });
  EXPECT_GT(saved_step_of(after), step_of(during));
  ::kill(pid, SIGINT);
  EXPECT_EQ(end_of(group).exit_code, 130);
}

}  // namespace
}  // namespace trainyard::cli
