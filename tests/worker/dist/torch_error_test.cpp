#include "worker/dist/torch_error.hpp"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace trainyard::dist {
namespace {

TEST(FirstLine, LeavesOutThePlaceInAnothersSources) {
  EXPECT_EQ(first_line("[../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]"),
            "Connection closed by peer [127.0.0.1]");
  EXPECT_EQ(first_line("one\ntwo"), "one");
  EXPECT_EQ(first_line("[no end"), "[no end");
  EXPECT_EQ(first_line(""), "");
  EXPECT_EQ(first_line("\n\none\ntwo"), "one");
  EXPECT_EQ(first_line("\n\n"), "");
  EXPECT_EQ(first_line("failed [x.cc:1] y"), "failed [x.cc:1] y");
}

TEST(MessageOf, LeavesOutTheStackOfTorchsOwnErrors) {
  try {
    TORCH_CHECK(false, "expected 2 dimensions");
  } catch (const std::exception& error) {
    EXPECT_EQ(message_of(error), "expected 2 dimensions");
  }
  EXPECT_EQ(message_of(std::runtime_error{"plain\nmore"}), "plain");
}

TEST(MessageOf, AddsWhatNcclNamesAsTheCause) {
  EXPECT_EQ(message_of(std::runtime_error{"NCCL error in: f.cpp:94\nncclSystemError: A call failed.\nLast error:\nthe "
                                          "connection was refused\nmore"}),
            "NCCL error in: f.cpp:94: the connection was refused");
  EXPECT_EQ(message_of(std::runtime_error{"NCCL error in: f.cpp:94\nLast error:\n"}), "NCCL error in: f.cpp:94");
}

}  // namespace
}  // namespace trainyard::dist
