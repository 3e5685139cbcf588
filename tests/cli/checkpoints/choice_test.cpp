#include "cli/checkpoints/choice.hpp"

#include <gmock/gmock.h>

namespace trainyard::cli {
namespace {

using checkpoint::Catalogue;
using checkpoint::CheckpointId;
using checkpoint::Listed;
using checkpoint::Standing;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Listed listed(CheckpointId id, Standing standing) {
  const bool is_candidate = standing != Standing::superseded && standing != Standing::unfinished;
  return {.id = id,
          .standing = standing,
          .is_candidate = is_candidate,
          .reason = standing == Standing::damaged ? "torn" : ""};
}

const Catalogue some{.inventory = {},
                     .checkpoints = {listed({10, 1}, Standing::complete), listed({20, 1}, Standing::complete),
                                     listed({30, 1}, Standing::superseded), listed({20, 2}, Standing::complete),
                                     listed({25, 2}, Standing::damaged), listed({28, 2}, Standing::unfinished)}};

TEST(Choose, WithoutANameTakesWhatARestorePicksAndSaysWhatItSkips) {
  const auto choice = choose_readable(some, {});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->listed->id, (CheckpointId{20, 2}));
  EXPECT_THAT(choice->notes, ElementsAre("step-25/g-2 is skipped: torn"));
}

TEST(Choose, ByStepOrByUriTakesThatOneOrSaysWhatIsThere) {
  EXPECT_EQ(choose(some, {.step = 20})->listed->id, (CheckpointId{20, 2}));
  EXPECT_EQ(choose(some, {.id = CheckpointId{20, 1}})->listed->id, (CheckpointId{20, 1}));
  EXPECT_THAT(choose(some, {.step = 10})->notes, IsEmpty());
  EXPECT_THAT(choose(some, {.step = 30})->notes, ElementsAre(HasSubstr("step-30/g-1 is superseded")));
  EXPECT_EQ(choose(some, {.step = 11}).error().message,
            "there is no checkpoint of step 11; there are steps 10, 20, 25, 28, 30");
  EXPECT_THAT(choose(some, {.id = CheckpointId{20, 3}}).error().message, HasSubstr("no checkpoint step-20/g-3"));
  EXPECT_EQ(choose(some, {.id = CheckpointId{20, 1}, .step = 10}).error().kind, ErrorKind::invalid);
  EXPECT_EQ(choose({}, {}).error().message, "there are no checkpoints here");
}

TEST(Choose, RefusesToReadWhatIsDamagedOrUnfinished) {
  EXPECT_EQ(choose_readable(some, {.step = 25}).error().message, "step-25/g-2 is damaged: torn");
  EXPECT_THAT(choose_readable(some, {.step = 28}).error().message, HasSubstr("step-28/g-2 is unfinished"));
  const Catalogue damaged{.inventory = {}, .checkpoints = {listed({10, 1}, Standing::damaged)}};
  EXPECT_EQ(choose_readable(damaged, {}).error().kind, ErrorKind::corrupt);
}

TEST(Choose, VerifiesTheNewestCurrentCheckpointAlsoWhenItIsDamaged) {
  EXPECT_EQ(choose_to_verify(some, {})->listed->id, (CheckpointId{25, 2}));
}

TEST(Choose, RemovesOnlyWhatIsNamedWithoutDoubt) {
  EXPECT_EQ(choose_to_remove(some, {}).error().kind, ErrorKind::invalid);
  EXPECT_THAT(choose_to_remove(some, {.step = 20}).error().message, HasSubstr("step-20/g-1 or step-20/g-2"));
  EXPECT_EQ(choose_to_remove(some, {.step = 10})->listed->id, (CheckpointId{10, 1}));
  EXPECT_EQ(choose_to_remove(some, {.id = CheckpointId{20, 1}})->listed->id, (CheckpointId{20, 1}));
  const Catalogue superseded{
      .inventory = {}, .checkpoints = {listed({30, 1}, Standing::superseded), listed({30, 2}, Standing::complete)}};
  EXPECT_THAT(choose_to_remove(superseded, {.step = 30}).error().message, HasSubstr("step-30/g-1 or step-30/g-2"));
}

}  // namespace
}  // namespace trainyard::cli
