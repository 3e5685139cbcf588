#include "cli/console.hpp"

#include <gtest/gtest.h>
#include <stdio.h>

#include <cstdlib>

namespace trainyard::cli {
namespace {

using namespace std::chrono_literals;

/// A stream into memory.
class Memory {
 public:
  Memory() : stream_{::open_memstream(&bytes_, &size_)} {}
  ~Memory() {
    std::fclose(stream_);
    std::free(bytes_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::FILE* stream() { return stream_; }
  std::string text() {
    std::fflush(stream_);
    return {bytes_, size_};
  }

 private:
  char* bytes_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* stream_;
};

constexpr Instant start{};

TEST(Console, RewritesTheStatusOfATerminalAndCutsItToTheWidth) {
  Memory memory;
  {
    Console console{memory.stream(), 10};
    console.show("step 1", start);
    console.show("step 1", start);
    console.show("0123456789abc", start);
    console.print("news");
  }
  EXPECT_EQ(memory.text(), "\r\033[Kstep 1\r\033[K012345678\r\033[Knews\n");
}

TEST(Console, WritesTheStatusIntoAPipeEveryFewSeconds) {
  Memory memory;
  {
    Console console{memory.stream(), 0};
    console.show("step 1", start);
    console.show("step 2", start + 1s);
    console.print("news");
    console.show("step 3", start + 6s);
    console.show("step 3", start + 60s);
  }
  EXPECT_EQ(memory.text(), "step 1\nnews\nstep 3\n");
}

TEST(Console, WritesOutputAsItIs) {
  Memory memory;
  Console console{memory.stream(), 0};
  console.write("a\nb");
  EXPECT_EQ(memory.text(), "a\nb");
  console.print("news");
  console.show("step 1", start);
  EXPECT_EQ(memory.text(), "a\nb\nnews\nstep 1\n");
}

TEST(Console, BeginsALineOfItsOwnBehindOutputWithoutALineEnd) {
  Memory memory;
  Console console{memory.stream(), 20};
  console.write("50%");
  console.show("step 1", start);
  console.show("step 2", start);
  console.write("60%");
  console.print("news");
  console.clear();
  console.show("", start);
  EXPECT_EQ(memory.text(), "50%\n\r\033[Kstep 1\r\033[Kstep 2\r\033[K60%\nnews\n");
}

TEST(Console, WritesAnEqualStatusAgainOnceItWasCleared) {
  Memory memory;
  Console console{memory.stream(), 20};
  console.show("step 1", start);
  console.print("news");
  console.show("step 1", start);
  EXPECT_EQ(memory.text(), "\r\033[Kstep 1\r\033[Knews\n\r\033[Kstep 1");
}

TEST(TerminalWidth, IsNoneForAStreamThatIsNoTerminal) {
  std::FILE* const file = std::tmpfile();
  EXPECT_EQ(terminal_width(file), 0);
  std::fclose(file);
}

}  // namespace
}  // namespace trainyard::cli
