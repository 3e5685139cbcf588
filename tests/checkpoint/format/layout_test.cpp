#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/format/layout.hpp"

namespace trainyard::checkpoint {
namespace {

TEST(Layout, PutsEachCheckpointInAFolderOfItsStepAndGeneration) {
  const CheckpointId id{.step = 120, .generation = 3};
  EXPECT_EQ(claim_key(3), "generations/3.json");
  EXPECT_EQ(saved_key(3), "generations/3.saved");
  EXPECT_EQ(alive_key(3), "generations/3.alive");
  EXPECT_EQ(end_key(3), "generations/3.end");
  EXPECT_EQ(folder_key(id), "step-120/g-3");
  EXPECT_EQ(data_key(id, 7, "0123456789abcdef0123456789abcdef-2"),
            "step-120/g-3/rank-7-0123456789abcdef0123456789abcdef-2.safetensors");
  EXPECT_EQ(data_key(id, 7), "step-120/g-3/rank-7.safetensors") << "of a program before format version 3";
  EXPECT_EQ(manifest_key(id), "step-120/g-3/manifest.json");
  EXPECT_EQ(snapshot_key(id), "snapshots/g-3/step-120.json");
}

TEST(Layout, FindsItsOwnObjectsAndNoOthers) {
  EXPECT_EQ(parse_claim_key("generations/12.json"), 12);
  for (const char* other : {"generations/x.json", "generations/-1.json", "generations/01.json", "generations/00.json",
                            "generations/09.json", "generations/1.json.bak", "generations/99999999999999999999.json",
                            "step-1/g-1/1.json"}) {
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
  EXPECT_EQ(parse_snapshot_key("snapshots/g-12/step-34.json"), (CheckpointId{.step = 34, .generation = 12}));
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

TEST(Layout, DistinguishesWorkersKeysFromFilesThatPeoplePutBesideThem) {
  const std::string nonce = "0123456789abcdef0123456789abcdef-12";
  for (const std::string& name : {std::string{"manifest.json"}, "rank-7-" + nonce + ".safetensors",
                                  std::string{"rank-7.safetensors"}, std::string{"receipt-0.json"}}) {
    EXPECT_EQ(parse_written_key("step-120/g-3/" + name), (CheckpointId{120, 3})) << name;
  }
  for (const std::string& name :
       {std::string{"notes.txt"}, std::string{"manifest.json.bak"}, std::string{"manifest.jso"},
        std::string{"rank-1.safetensors.bak"}, std::string{"rank-.safetensors"}, std::string{"rank-01.safetensors"},
        std::string{"rank-1-best.safetensors"}, std::string{"rank-1-.safetensors"}, "rank-1-" + nonce,
        "rank-1-" + nonce + ".safetensorz", "rank-1-" + nonce + "x.safetensors", "rank-1-" + nonce + "/a.safetensors",
        std::string{"receipt-0.json5"}, std::string{"receipt-x.json"}, "a/rank-1-" + nonce + ".safetensors"}) {
    EXPECT_EQ(parse_written_key("step-120/g-3/" + name), std::nullopt) << name;
  }
  EXPECT_EQ(parse_written_key("generations/1.json"), std::nullopt);
}

TEST(Layout, TakesNoNonceThatCouldLeadElsewhere) {
  const std::string digits(32, 'a');
  EXPECT_TRUE(is_save_nonce(digits + "-1"));
  for (const std::string& text : {std::string{}, digits, digits + "-", digits + "-x", digits + "-1/..", digits + "1-1",
                                  "../" + digits + "-1", std::string(32, 'g') + "-1", std::string(32, 'A') + "-1",
                                  std::string(32, '/') + "-1", std::string(32, '.') + "-1"}) {
    EXPECT_FALSE(is_save_nonce(text)) << text;
  }
}

TEST(ParsePlace, DistinguishesAPrefixFromTheUriOfOneCheckpoint) {
  struct Case {
    std::string uri;
    Place place;
  };
  const std::vector<Case> cases = {
      {"s3://bucket/run", {"s3://bucket/run", std::nullopt}},
      {"s3://bucket", {"s3://bucket", std::nullopt}},
      {"s3://bucket/run/step-20/g-2", {"s3://bucket/run", CheckpointId{20, 2}}},
      {"file:///a/run/step-20/g-2/", {"file:///a/run", CheckpointId{20, 2}}},
      {"file:///a/run/step-20", {"file:///a/run/step-20", std::nullopt}},
      {"file:///a/step-020/g-2", {"file:///a/step-020/g-2", std::nullopt}},
      {"step-20/g-2", {"step-20/g-2", std::nullopt}},
      {"", {"", std::nullopt}},
  };
  for (const auto& [uri, place] : cases) EXPECT_EQ(parse_place(uri), place) << uri;
}

TEST(ParsePlace, FindsTheCheckpointHoweverManySlashesFollowIt) {
  const Place place{"s3://bucket/run", CheckpointId{20, 2}};
  for (const std::string slashes : {"/", "//", "///"}) {
    EXPECT_EQ(parse_place("s3://bucket/run/step-20/g-2" + slashes), place) << slashes;
  }
}

}  // namespace
}  // namespace trainyard::checkpoint
