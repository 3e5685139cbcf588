#include "worker/train/process_sets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/train/with_process_sets.hpp"
#include "worker/train/rank_context.hpp"

namespace trainyard::train {
namespace {

using testing::HasSubstr;

TEST(CheckProcessSets, SaysWhatWasGivenAndWhatIsAllowed) {
  RanksBySet many;
  for (std::size_t set = 0; set <= process_sets_max; ++set) many[std::to_string(set)] = {0};
  RanksBySet most = many;
  most.erase("0");
  struct Row {
    RanksBySet sets;
    std::string refusal = {};  // empty: they are accepted
  };
  const Row rows[] = {
      {{}},
      {{{"a", {0}}, {"b", {2, 0}}, {"an encoder", {0, 1, 2}}}},
      {most},
      {many, "configure_process_sets() returned 65 process sets: at most 64 are allowed"},
      {{{"a", {}}}, "configure_process_sets() returned the process set \"a\" without ranks: a set has at least one"},
      {{{"a", {0}}, {"b", {1, 3}}},
       "configure_process_sets() returned the process set \"b\" with the rank 3: this job's ranks are 0 to 2"},
      {{{"a", {-1}}},
       "configure_process_sets() returned the process set \"a\" with the rank -1: this job's ranks are 0 to 2"},
      {{{"a", {1, 2, 1}}},
       "configure_process_sets() returned the process set \"a\" with the rank 1 twice: a set names each of its ranks "
       "once"},
      {{{"two\nlines", {0}}},
       "configure_process_sets() returned a process set with a wrong name: a name is one line of 1 to 200 bytes, "
       "without control characters and without a blank at its beginning; this one is \"two\\nlines\", 9 bytes"},
      {{{"", {0}}},
       "configure_process_sets() returned a process set with a wrong name: a name is one line of 1 to 200 bytes, "
       "without control characters and without a blank at its beginning; this one is \"\", 0 bytes"},
  };
  for (const Row& row : rows) {
    const auto checked = check_process_sets(row.sets, 3);
    EXPECT_EQ(checked ? "" : checked.error().message, row.refusal);
    if (!checked) {
      EXPECT_EQ(checked.error().kind, ErrorKind::invalid);
    }
  }
}

TEST(CompareProcessSets, NamesTheFirstSetThatDiffers) {
  const std::string common = "configure_process_sets() must return the same sets on all ranks: of the sets by name, ";
  const std::string two = to_text({{"a", {0, 1}}, {"b\n", {2, 0}}});
  struct Row {
    std::string first;
    std::string last;  // of rank 2; rank 1 has the text of rank 0
    std::string refusal = {};
  };
  const Row rows[] = {
      {"", ""},
      {two, to_text({{"b\n", {0, 2}}, {"a", {1, 0}}})},
      {two, to_text({{"a", {0, 1}}, {"b\n", {0, 1}}}),
       R"(number 2 is "b\n": [0, 2] on rank 0, and "b\n": [0, 1] on rank 2)"},
      {two, to_text({{"a", {0, 1}}}), R"(number 2 is "b\n": [0, 2] on rank 0, and only 1 of them on rank 2)"},
      {"", two, R"(number 1 is no set on rank 0, and "a": [0, 1] on rank 2)"},
  };
  for (const Row& row : rows) {
    const std::vector<std::string> texts{row.first, row.first, row.last};
    const auto compared = compare_process_sets(texts);
    EXPECT_EQ(compared ? "" : compared.error().message, row.refusal.empty() ? "" : common + row.refusal);
  }
}

std::string invalid_job_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidJob& error) {
    return error.what();
  }
  return "no InvalidJob was thrown";
}

TEST(ConnectProcessSets, FailsTheJobOnAllRanksAlikeForSetsThatDifferOrAreWrong) {
  fakes::run_ranks(3, [](fakes::RankThread& thread) {
    const dist::Group group = group_of(thread);
    ModuleOfSets differing{{{"a", {0, thread.rank == 2 ? 2 : 1}}}};
    EXPECT_THAT(invalid_job_of([&] { std::ignore = connect_process_sets(differing, group, fakes::plain_wait); }),
                HasSubstr(R"("a": [0, 1] on rank 0, and "a": [0, 2] on rank 2)"));
    ModuleOfSets wrong{{{"a", {3}}}};
    EXPECT_THAT(invalid_job_of([&] { std::ignore = connect_process_sets(wrong, group, fakes::plain_wait); }),
                HasSubstr("with the rank 3"));
    // A mistake of one rank is a difference to all.
    ModuleOfSets wrong_on_one{{{"a", {thread.rank == 1 ? 3 : 0}}}};
    EXPECT_THAT(invalid_job_of([&] { std::ignore = connect_process_sets(wrong_on_one, group, fakes::plain_wait); }),
                HasSubstr(R"("a": [3] on rank 1)"));
  });
}

TEST(ConnectProcessSets, PassesOnTheErrorOfTheConnectionAndNeedsNoneForOneRank) {
  fakes::run_ranks(2, [](fakes::RankThread& thread) {
    dist::Group group = group_of(thread);
    group.connect_ranks = [](const std::string& name,
                             std::span<const std::int64_t>) -> Result<c10::intrusive_ptr<c10d::ProcessGroup>> {
      return fail(ErrorKind::cancelled, name + " is lost");
    };
    ModuleOfSets two{{{"both", {1, 0}}}};
    const auto lost = connect_process_sets(two, group, fakes::plain_wait);
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error(),
              (Error{.kind = ErrorKind::cancelled, .message = "the process set \"both\" (2 ranks) is lost"}));
    ModuleOfSets alone{{{"first", {0}}, {"second", {1}}}};
    EXPECT_TRUE(connect_process_sets(alone, group, fakes::plain_wait));
  });
}

TEST(ProcessSets, NameTheSetsThatThereAreForAnotherName) {
  ProcessSets sets;
  EXPECT_THAT([&] { std::ignore = sets.at("c"); },
              testing::ThrowsMessage<std::invalid_argument>(
                  "process_set(\"c\"): there is no such process set; configure_process_sets() returned none"));
  for (const char* const name : {"b", "a"}) sets.add(name, make_process_set({.name = name, .ranks = {0}}));
  EXPECT_EQ(sets.at("b").ranks(), std::vector<std::int64_t>{0});
  EXPECT_THAT([&] { std::ignore = sets.at("c"); },
              testing::ThrowsMessage<std::invalid_argument>(
                  "process_set(\"c\"): there is no such process set; configure_process_sets() returned \"a\", \"b\""));
}

TEST(ProcessSetOfAModule, IsKnownOnceTheTrainingHasBegunAndNotToReplicas) {
  ModuleOfSets module{{}};
  EXPECT_TRUE(static_cast<Module&>(module).configure_process_sets(2).empty());
  EXPECT_THROW(std::ignore = module.process_set("a"), std::logic_error);
  checkpoint::SingleCommunicator communicator;
  ProcessSets sets;
  sets.add("a", make_process_set({.name = "a", .ranks = {0}}));
  RankContext context{
      {.process_group = {}, .communicator = communicator, .wait = fakes::plain_wait, .process_sets = &sets}};
  module.set_rank_context(&context);
  EXPECT_EQ(&module.process_set("a"), &sets.at("a"));
  EXPECT_THROW(std::ignore = module.process_set("b"), std::invalid_argument);
  RankContext of_replica = context.of_replica(torch::kCPU);
  module.set_rank_context(&of_replica);
  EXPECT_THAT(
      [&] { std::ignore = module.process_set("a"); },
      testing::ThrowsMessage<std::logic_error>(HasSubstr("process_set() was called by a replica of the model")));
  RankContext without{{.process_group = {}, .communicator = communicator, .wait = fakes::plain_wait}};
  module.set_rank_context(&without);
  EXPECT_THROW(std::ignore = module.process_set("a"), std::invalid_argument);
}

}  // namespace
}  // namespace trainyard::train
