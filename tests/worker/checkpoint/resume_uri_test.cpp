// checkpoint.resume as a URI, through the whole checkpointer.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "worker/checkpoint/checkpointer.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::HasSubstr;

class ResumeUri : public testing::Test {
 protected:
  Result<std::unique_ptr<Checkpointer>> open(const std::string& job, const std::string& resume_uri) {
    api::CheckpointSpec spec;
    spec.uri = folder.uri() + "/" + job;
    spec.resume_uri = resume_uri;
    const Identity identity{.job = job, .job_uid = job, .attempt = 1, .fingerprint = job};
    return open_checkpointer(spec, identity, single, clock);
  }
  static State state_of(double value) { return {.entries = {{"w", Placement::replicated, at::full({3}, value)}}}; }

  void save(const std::string& job, std::int64_t step) {
    State state = state_of(static_cast<double>(step));
    const auto checkpointer = open(job, "").value();
    ASSERT_TRUE(checkpointer->restore(state));
    state = state_of(static_cast<double>(step));
    checkpointer->begin_save(state, step, {});
    ASSERT_TRUE(checkpointer->take_outcome(std::chrono::minutes{1})->saved);
  }

  fakes::TemporaryFolder folder;
  fakes::FakeClock clock;
  SingleCommunicator single;
};

TEST_F(ResumeUri, NamesAFolderOfCheckpointsOrOneOfThem) {
  save("earlier", 10);
  save("earlier", 20);
  for (const auto& [place, step] : {std::pair{"/earlier", 20}, std::pair{"/earlier/step-10/g-1", 10}}) {
    State state = state_of(0);
    const auto restored = open("job-" + std::to_string(step), folder.uri() + place).value()->restore(state);
    ASSERT_TRUE(restored) << restored.error().message;
    ASSERT_TRUE(*restored);
    EXPECT_EQ((*restored)->step, step);
    EXPECT_THAT((*restored)->uri, HasSubstr("/earlier/step-"));
    EXPECT_EQ(state.entries[0].tensor[0].item<double>(), static_cast<double>(step));
  }
}

TEST_F(ResumeUri, IsTriedAsTheCheckpointsPlaceIs) {
  const auto opened = open("job", "abfs://models/x");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().kind, ErrorKind::invalid);
  State state = state_of(0);
  const auto absent = open("job", folder.uri() + "/absent").value()->restore(state);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().kind, ErrorKind::not_found);
  EXPECT_THAT(absent.error().message, HasSubstr(folder.uri() + "/absent"));
}

}  // namespace
}  // namespace trainyard::checkpoint
