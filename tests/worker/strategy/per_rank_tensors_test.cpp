#include "worker/strategy/per_rank_tensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <string>
#include <vector>

namespace trainyard::strategy {
namespace {

TEST(PerRankTensors, PutBackWhatThisRankHadSaved) {
  torch::Tensor mean = torch::full({2}, 5.0);
  PerRankTensors saved{{{"norm.mean", mean}}, "buffer"};
  mean.fill_(6.0);
  saved.before_save();
  torch::Tensor other_mean = torch::full({2}, 7.0);
  PerRankTensors resumed{{{"norm.mean", other_mean}}, "buffer"};
  std::vector<std::string> names;
  const NamedTensors from = saved.state(), to = resumed.state();
  for (std::size_t index = 0; index < from.size(); ++index) {
    names.push_back(from[index].first);
    EXPECT_EQ(to[index].first, from[index].first);
    to[index].second.copy_(from[index].second);
  }
  EXPECT_THAT(names, testing::ElementsAre("has_buffers", "buffer.norm.mean"));
  resumed.after_restore();
  EXPECT_TRUE(torch::equal(other_mean, torch::full({2}, 6.0)));
}

TEST(PerRankTensors, LeaveTheModelsOfTheCheckpointToARankThatItLacks) {
  torch::Tensor mean = torch::full({2}, 5.0);
  PerRankTensors tensors{{{"norm.mean", mean}}, "buffer"};
  mean.fill_(6.0);  // The checkpoint's model, which has rank 0's.
  tensors.after_restore();
  EXPECT_TRUE(torch::equal(mean, torch::full({2}, 6.0)));
}

}  // namespace
}  // namespace trainyard::strategy
