#include "worker/rank/tcp.hpp"

#include <gtest/gtest.h>

namespace trainyard::rank {
namespace {

TEST(ReachOf, IsLoopbackOnlyWhereTheAddressIsTheLoopbackAddressItself) {
  for (const auto* address : {"127.0.0.1", "localhost", "::1"})
    EXPECT_EQ(reach_of(address), Reach::loopback) << address;
  for (const auto* address : {"127.0.0.2", "host1", "10.0.0.7"})
    EXPECT_EQ(reach_of(address), Reach::everywhere) << address;
}

}  // namespace
}  // namespace trainyard::rank
