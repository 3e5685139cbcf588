#include "worker/checkpoint/core/layout.hpp"

#include <gtest/gtest.h>

namespace trainyard::checkpoint {
namespace {

TEST(Layout, PutsEachCheckpointInAFolderOfItsStepAndGeneration) {
  const CheckpointId id{.step = 120, .generation = 3};
  EXPECT_EQ(claim_key(3), "generations/3.json");
  EXPECT_EQ(end_key(3), "generations/3.end");
  EXPECT_EQ(folder_key(id), "step-120/g-3");
  EXPECT_EQ(data_key(id, 7), "step-120/g-3/rank-7.safetensors");
  EXPECT_EQ(receipt_key(id, 7), "step-120/g-3/receipt-7.json");
  EXPECT_EQ(manifest_key(id), "step-120/g-3/manifest.json");
  EXPECT_EQ(snapshot_key(id), "snapshots/g-3/step-120.json");
}

TEST(Layout, FindsItsOwnObjectsAndNoOthers) {
  EXPECT_EQ(parse_claim_key("generations/12.json"), 12);
  for (const char* other : {"generations/x.json", "generations/-1.json", "generations/01.json",
                            "generations/1.json.bak", "generations/99999999999999999999.json", "step-1/g-1/1.json"}) {
    EXPECT_EQ(parse_claim_key(other), std::nullopt) << other;
  }
  EXPECT_EQ(parse_claim_key("generations/12.end"), std::nullopt);
  EXPECT_EQ(parse_end_key("generations/12.end"), 12);
  EXPECT_EQ(parse_end_key("generations/12.json"), std::nullopt);
  const CheckpointId id{.step = 0, .generation = 1};
  EXPECT_EQ(parse_checkpoint_key("step-0/g-1/manifest.json"), id);
  EXPECT_EQ(parse_checkpoint_key("step-0/g-1/anything"), id);
  for (const char* other :
       {"step-0/g-1", "step-0/g-1/", "step-/g-1/a", "step-1/h-1/a", "step-1/a", "steps/1", "step--1/g-1/a"}) {
    EXPECT_EQ(parse_checkpoint_key(other), std::nullopt) << other;
  }
  EXPECT_EQ(parse_folder_key("step-0/g-1"), id);
  for (const char* other : {"step-0/g-1/", "step-0/g-1/a", "step-0", "step-0/g-", "generations"}) {
    EXPECT_EQ(parse_folder_key(other), std::nullopt) << other;
  }
  EXPECT_EQ(parse_snapshot_key("snapshots/g-1/step-0.json"), id);
  for (const char* other : {"snapshots/g-1/step-0.json.bak", "snapshots/g-1/step-.json", "snapshots/g-01/step-0.json",
                            "snapshots/step-0.json", "snapshots/g-1/step-0", "step-0/g-1/step-0.json"}) {
    EXPECT_EQ(parse_snapshot_key(other), std::nullopt) << other;
  }
  EXPECT_EQ(parse_checkpoint_key("snapshots/g-1/step-0.json"), std::nullopt);
  EXPECT_EQ(parse_snapshot_folder("snapshots/g-12"), 12);
  for (const char* other : {"snapshots/g-12/", "snapshots/g-12/a", "snapshots/g-", "snapshots", "step-0/g-12"}) {
    EXPECT_EQ(parse_snapshot_folder(other), std::nullopt) << other;
  }
  EXPECT_EQ(generation_of_folder("snapshots/g-12"), 12);
  EXPECT_EQ(generation_of_folder("step-3/g-12"), 12);
  EXPECT_EQ(generation_of_folder("generations"), std::nullopt);
}

}  // namespace
}  // namespace trainyard::checkpoint
