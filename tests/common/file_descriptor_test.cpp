#include "common/file_descriptor.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace trainyard {
namespace {

int open_null() {
  return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}
bool is_open(int number) {
  return ::fcntl(number, F_GETFD) >= 0;
}

TEST(FileDescriptor, ClosesWhatItOwnsOnce) {
  int number = -1;
  {
    FileDescriptor owner{open_null()};
    number = owner.get();
    EXPECT_TRUE(owner);
    EXPECT_TRUE(is_open(number));
    owner.reset();
    EXPECT_FALSE(owner);
    EXPECT_FALSE(is_open(number));
    // Another file may get the number now: the owner must not close it.
    number = open_null();
  }
  EXPECT_TRUE(is_open(number));
  ::close(number);
}

TEST(FileDescriptor, IsEmptyOnceItHasBeenMovedOrReleased) {
  FileDescriptor first{open_null()};
  const int number = first.get();
  FileDescriptor second{std::move(first)};
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(second.get(), number);
  EXPECT_EQ(second.release(), number);
  EXPECT_FALSE(second);
  EXPECT_TRUE(is_open(number));
  ::close(number);
}

TEST(FileDescriptor, ClosesWhatItHadWhenItIsAssignedATemporary) {
  FileDescriptor owner{open_null()};
  const int before = owner.get();
  const int number = open_null();
  owner = FileDescriptor{number};
  EXPECT_EQ(owner.get(), number);
  EXPECT_FALSE(is_open(before));
  EXPECT_TRUE(is_open(number));
}

TEST(FileDescriptor, OwnsTheNumber0AndNoNegativeOne) {
  FileDescriptor zero{0};
  EXPECT_TRUE(zero);
  EXPECT_EQ(zero.release(), 0);
  EXPECT_FALSE(FileDescriptor{});
  EXPECT_FALSE(FileDescriptor{-1});
}

}  // namespace
}  // namespace trainyard
