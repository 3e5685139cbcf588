#include "cli/checkpoint_command.hpp"

#include <gtest/gtest.h>

#include "operator/plan/request_status.hpp"

namespace trainyard::cli {
namespace {

using api::CheckpointRequest;
using api::RequestState;
using State = RequestSummary::State;

RequestSummary waits(std::string sentence) {
  return {State::waiting, std::move(sentence)};
}
RequestSummary is_saved(std::string sentence) {
  return {State::saved, std::move(sentence)};
}
RequestSummary has_failed(std::string sentence) {
  return {State::failed, std::move(sentence)};
}

TEST(RequestSummary, IsWhatTheStatusSaysOfOurId) {
  struct Row {
    std::string sentence;
    std::string annotation;
    std::optional<CheckpointRequest> request;
    RequestSummary summary;
  };
  const CheckpointRequest older{.id = "older", .state = RequestState::done, .step = 1};
  const CheckpointRequest pending{.id = "ours", .message = "rank 0 saves it"};
  const CheckpointRequest done{.id = "ours", .state = RequestState::done, .step = 1200, .uri = "s3://m/step-1200/g-1"};
  const CheckpointRequest failed{.id = "ours", .state = RequestState::failed, .message = "no space"};
  const CheckpointRequest theirs{.id = "theirs"};
  const std::vector<Row> rows{
      {"no operator runs", "ours", {}, waits("no operator has taken it up yet")},
      {"an older answer stands there yet", "ours", older, waits("no operator has taken it up yet")},
      {"it waits", "ours", pending, waits("rank 0 saves it")},
      {"it is saved", "ours", done, is_saved("step 1200 saved: s3://m/step-1200/g-1")},
      {"it failed", "ours", failed, has_failed("no space")},
      {"it is saved, and somebody wants another", "theirs", done, is_saved("step 1200 saved: s3://m/step-1200/g-1")},
      {"somebody was faster", "theirs", theirs, has_failed("the request 'theirs' replaced it before it was answered")},
      {"somebody took it away",
       "",
       {},
       has_failed("the request was removed from the job's annotation before it was answered")},
  };
  for (const Row& row : rows) {
    api::TrainingJob job;
    if (!row.annotation.empty())
      job.metadata.annotations[std::string{plan::checkpoint_request_annotation}] = row.annotation;
    job.status.checkpoint_request = row.request;
    EXPECT_EQ(summarize_request(job, "ours"), row.summary) << row.sentence;
  }
}

}  // namespace
}  // namespace trainyard::cli
