#include "checkpoint/interchange/removal.hpp"

#include <gmock/gmock.h>

#include "tests/checkpoint/interchange/test_prefix.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ARemoval : public MemoryPrefix {
 protected:
  Result<Removal> plan(const CheckpointId& id, bool is_forced = false) {
    const auto catalogue = read_catalogue(prefix.store());
    return plan_removal(*catalogue, *catalogue->find(id), is_forced);
  }
};

TEST_F(ARemoval, TakesTheManifestFirstAndLeavesWhatNoWorkerWrites) {
  prefix.claim(1);
  prefix.save({10, 1}, 2);
  prefix.save({100, 1});
  for (const char* key : {"step-10/g-1/notes.txt", "step-10/g-1/rank-1.safetensors.bak",
                          "step-10/g-1/rank-.safetensors", "step-10/readme", "other"}) {
    ASSERT_TRUE(storage::put_text(prefix.store(), key, "mine"));
  }
  const std::size_t count = objects.objects.size();
  const auto removal = plan({10, 1});
  ASSERT_TRUE(removal);
  EXPECT_THAT(removal->keys, ElementsAre("step-10/g-1/manifest.json", "step-10/g-1/rank-0.safetensors",
                                         "step-10/g-1/rank-1.safetensors", "step-10/g-1/receipt-0.json",
                                         "step-10/g-1/receipt-1.json"));
  EXPECT_THAT(removal->strangers, ElementsAre("step-10/g-1/notes.txt", "step-10/g-1/rank-.safetensors",
                                              "step-10/g-1/rank-1.safetensors.bak"));
  ASSERT_TRUE(remove_all(prefix.store(), *removal));
  EXPECT_EQ(objects.objects.size(), count - 5);
  EXPECT_EQ(read_catalogue(prefix.store())->newest()->id, (CheckpointId{100, 1}));
}

TEST_F(ARemoval, OfTheNewestCurrentCheckpointNeedsForce) {
  prefix.claim(1);
  prefix.save({10, 1});
  prefix.save({20, 1});
  const auto refused = plan({20, 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::conflict);
  EXPECT_THAT(refused.error().message, HasSubstr("--force"));
  EXPECT_TRUE(plan({20, 1}, true));
  EXPECT_TRUE(plan({10, 1}));
}

TEST_F(ARemoval, OfWhatARunMayBeWritingNeedsForce) {
  prefix.claim(1);
  prefix.save({10, 1});
  prefix.save({20, 1});
  ASSERT_TRUE(prefix.store().remove(manifest_key({20, 1})));
  EXPECT_THAT(plan({20, 1}).error().message, HasSubstr("of team/a, has not ended"));
  EXPECT_TRUE(plan({20, 1}, true));
  ASSERT_TRUE(storage::put_text(prefix.store(), end_key(1), ""));
  EXPECT_TRUE(plan({20, 1}));
}

}  // namespace
}  // namespace trainyard::checkpoint
