#include "checkpoint/format/place.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trainyard::checkpoint {
namespace {

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

}  // namespace
}  // namespace trainyard::checkpoint
