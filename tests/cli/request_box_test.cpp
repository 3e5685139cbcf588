#include "cli/request_box.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::cli {
namespace {

using api::CheckpointRequest;
using api::RequestState;

class RequestBoxTest : public testing::Test {
 protected:
  const fakes::TemporaryFolder folder_;
  RequestBox box_{folder_.file("run")};
};

TEST_F(RequestBoxTest, IsEmptyWhereNobodyEverAsked) {
  EXPECT_EQ(box_.next().value(), std::nullopt);
  EXPECT_EQ(box_.take_answer("a").value(), std::nullopt);
  EXPECT_TRUE(box_.clear());
  EXPECT_TRUE(box_.withdraw("a"));
}

TEST_F(RequestBoxTest, GivesEachAskerItsOwnAnswerOnce) {
  ASSERT_TRUE(box_.put("b"));
  ASSERT_TRUE(box_.put("a"));
  EXPECT_EQ(box_.next().value(), "a");
  EXPECT_EQ(box_.take_answer("a").value(), std::nullopt);
  const CheckpointRequest saved{.id = "a", .state = RequestState::done, .step = 7, .uri = "file:///c/step-7/g-1"};
  ASSERT_TRUE(box_.answer(saved));
  EXPECT_EQ(box_.next().value(), "b");
  EXPECT_EQ(box_.take_answer("b").value(), std::nullopt);
  EXPECT_EQ(box_.take_answer("a").value(), saved);
  EXPECT_EQ(box_.take_answer("a").value(), std::nullopt);
}

TEST_F(RequestBoxTest, ForgetsWhatIsWithdrawnOrWasMeantForAnEarlierRun) {
  ASSERT_TRUE(box_.put("a"));
  ASSERT_TRUE(box_.withdraw("a"));
  EXPECT_EQ(box_.next().value(), std::nullopt);
  ASSERT_TRUE(box_.put("b"));
  ASSERT_TRUE(box_.clear());
  EXPECT_EQ(box_.next().value(), std::nullopt);
}

TEST_F(RequestBoxTest, PassesOverFilesThatAreNoRequests) {
  std::filesystem::create_directories(folder_.file("run/.requests"));
  for (const char* name : {"a b.request", ".request", "c.request.new", "d.answer", "notes"})
    folder_.write(std::string{"run/.requests/"} + name, "");
  EXPECT_EQ(box_.next().value(), std::nullopt);
}

TEST_F(RequestBoxTest, SaysWhatCannotBeReadOrChanged) {
  const CheckpointRequest answer{.id = "a", .state = RequestState::failed, .message = "no"};
  struct Row {
    std::string_view name;
    std::string in_the_way;  ///< A folder with the name of a file of the box.
    std::function<Result<void>(RequestBox&)> act;
    std::string said;
  };
  const auto ignored = [](const auto&) {};
  const std::vector<Row> rows{
      {"put", "a.request", [](RequestBox& box) { return box.put("a"); },
       "renaming a temporary file to {}: Is a directory"},
      {"withdraw", "a.request", [](RequestBox& box) { return box.withdraw("a"); }, "removing {}: Is a directory"},
      {"take the answer", "a.answer", [&](RequestBox& box) { return box.take_answer("a").map(ignored); },
       "{} is not a file"},
      {"answer", "a.answer", [&](RequestBox& box) { return box.answer(answer); },
       "renaming a temporary file to {}: Is a directory"},
      {"answer", "a.request", [&](RequestBox& box) { return box.answer(answer); }, "removing {}: Is a directory"},
  };
  for (const Row& row : rows) {
    ASSERT_TRUE(box_.clear());
    const auto in_the_way = folder_.file("run/.requests/" + row.in_the_way);
    std::filesystem::create_directories(in_the_way);
    const auto done = row.act(box_);
    ASSERT_FALSE(done) << row.name;
    EXPECT_EQ(done.error().message, fmt::format(fmt::runtime(row.said), in_the_way.string())) << row.name;
  }
}

TEST_F(RequestBoxTest, SaysThatItsFolderCannotBe) {
  const auto ignored = [](const auto&) {};
  RequestBox box{folder_.write("file", "")};
  const std::string name(300, 'x');
  RequestBox unnamable{folder_.file(name)};
  for (const auto& done :
       {box.put("a"), box.next().map(ignored), unnamable.put("a"), unnamable.next().map(ignored), unnamable.clear()}) {
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::invalid) << done.error().message;
  }
}

TEST_F(RequestBoxTest, SaysThatAnAnswerIsDamaged) {
  std::filesystem::create_directories(folder_.file("run/.requests"));
  folder_.write("run/.requests/a.answer", "{");
  const auto answer = box_.take_answer("a");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::corrupt);
  EXPECT_EQ(box_.take_answer("a").value(), std::nullopt);
}

}  // namespace
}  // namespace trainyard::cli
