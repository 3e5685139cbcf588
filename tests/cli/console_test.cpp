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

}  // namespace
}  // namespace trainyard::cli
