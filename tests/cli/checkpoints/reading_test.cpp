#include "cli/checkpoints/reading.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "checkpoint/interchange/tensor_file.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::cli {
namespace {

// Maps a file of two pages, truncates it to one, and reads the second.
void look_behind_the_cut(const std::string& path) {
  const auto file = checkpoint::MappedFile::open(path);
  const CutFileGuard guard{path};
  std::filesystem::resize_file(path, 4096);
  static_cast<void>(*static_cast<volatile std::byte*>(&file->bytes()[8000]));
}

TEST(CutFileGuardDeathTest, EndsTheProgramWithASentenceWhereItWouldCrash) {
  const fakes::TemporaryFolder folder;
  const std::string path = folder.write("model.pt", std::string(8192, 'x')).string();
  EXPECT_EXIT(look_behind_the_cut(path), testing::ExitedWithCode(1),
              "error: .*model.pt was truncated while it was read");
}

}  // namespace
}  // namespace trainyard::cli
