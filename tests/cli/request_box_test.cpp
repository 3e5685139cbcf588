#include "cli/request_box.hpp"

#include <gtest/gtest.h>

#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::cli {
namespace {

using resource::CheckpointRequest;
using resource::RequestState;

class RequestBoxTest : public testing::Test {
 protected:
  const fakes::TemporaryFolder folder_;
  const RequestBox box_{folder_.file("run")};
};

TEST_F(RequestBoxTest, IsEmptyWhereNobodyEverAsked) {
  EXPECT_EQ(box_.next(), std::nullopt);
  EXPECT_EQ(box_.take_answer("a"), std::nullopt);
  box_.clear();
  box_.withdraw("a");
}

TEST_F(RequestBoxTest, GivesEachAskerItsOwnAnswerOnce) {
  ASSERT_TRUE(box_.put("b"));
  ASSERT_TRUE(box_.put("a"));
  EXPECT_EQ(box_.next(), "a");
  EXPECT_EQ(box_.take_answer("a"), std::nullopt);
  const CheckpointRequest saved{.id = "a", .state = RequestState::done, .step = 7, .uri = "file:///c/step-7/g-1"};
  ASSERT_TRUE(box_.answer(saved));
  EXPECT_EQ(box_.next(), "b");
  EXPECT_EQ(box_.take_answer("b"), std::nullopt);
  EXPECT_EQ(box_.take_answer("a"), saved);
  EXPECT_EQ(box_.take_answer("a"), std::nullopt);
}

TEST_F(RequestBoxTest, ForgetsWhatIsWithdrawnOrWasMeantForAnEarlierRun) {
  ASSERT_TRUE(box_.put("a"));
  box_.withdraw("a");
  EXPECT_EQ(box_.next(), std::nullopt);
  ASSERT_TRUE(box_.put("b"));
  box_.clear();
  EXPECT_EQ(box_.next(), std::nullopt);
}

TEST_F(RequestBoxTest, PassesOverFilesThatAreNoRequests) {
  std::filesystem::create_directories(folder_.file("run/.requests"));
  for (const char* name : {"a b.request", ".request", "c.request.new", "d.answer", "notes"})
    folder_.write(std::string{"run/.requests/"} + name, "");
  EXPECT_EQ(box_.next(), std::nullopt);
}

TEST_F(RequestBoxTest, SaysThatItCannotBeWritten) {
  const RequestBox box{folder_.write("file", "")};
  const auto put = box.put("a");
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::io);
}

TEST_F(RequestBoxTest, TakesADamagedAnswerForAFailure) {
  std::filesystem::create_directories(folder_.file("run/.requests"));
  folder_.write("run/.requests/a.answer", "{");
  const auto answer = box_.take_answer("a");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->state, RequestState::failed);
}

}  // namespace
}  // namespace trainyard::cli
