#include "cli/request_news.hpp"

#include <gtest/gtest.h>

#include "operator/plan/checkpoint_request.hpp"

namespace trainyard::cli {
namespace {

using resource::CheckpointRequest;
using resource::RequestState;
using State = RequestNews::State;

struct NewsRow {
  std::string sentence;
  std::string annotation;
  std::optional<CheckpointRequest> request;
  RequestNews news;
};

TEST(RequestNews, IsWhatTheStatusSaysOfOurId) {
  const std::vector<NewsRow> rows{
      {"no operator runs", "ours", {}, {State::waiting, "no operator has taken it up yet"}},
      {"an older answer stands there yet",
       "ours",
       CheckpointRequest{.id = "older", .state = RequestState::done, .step = 1},
       {State::waiting, "no operator has taken it up yet"}},
      {"it waits",
       "ours",
       CheckpointRequest{.id = "ours", .message = "rank 0 saves it"},
       {State::waiting, "rank 0 saves it"}},
      {"it is saved",
       "ours",
       CheckpointRequest{.id = "ours", .state = RequestState::done, .step = 1200, .uri = "s3://m/step-1200/g-1"},
       {State::saved, "step 1200 saved: s3://m/step-1200/g-1"}},
      {"it failed",
       "ours",
       CheckpointRequest{.id = "ours", .state = RequestState::failed, .message = "no space"},
       {State::failed, "no space"}},
      {"it is saved, and somebody wants another",
       "theirs",
       CheckpointRequest{.id = "ours", .state = RequestState::done, .step = 3, .uri = "u"},
       {State::saved, "step 3 saved: u"}},
      {"somebody was faster",
       "theirs",
       CheckpointRequest{.id = "theirs"},
       {State::failed, "the request 'theirs' took its place before it was answered"}},
      {"somebody took it away", "", {}, {State::failed, "somebody took the request away before it was answered"}},
  };
  for (const NewsRow& row : rows) {
    resource::TrainingJob job;
    if (!row.annotation.empty())
      job.metadata.annotations[std::string{plan::checkpoint_request_annotation}] = row.annotation;
    job.status.checkpoint_request = row.request;
    EXPECT_EQ(request_news(job, "ours"), row.news) << row.sentence;
  }
}

}  // namespace
}  // namespace trainyard::cli
