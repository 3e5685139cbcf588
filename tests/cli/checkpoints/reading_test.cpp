#include "cli/checkpoints/reading.hpp"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

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

TEST(ExpectStep, TakesWholeNumbersOfUpTo18Digits) {
  const auto step_of = [](const std::string& text) {
    CLI::App app;
    std::int64_t step = -1;
    expect_step(app.add_option("--step", step));
    app.parse(std::vector<std::string>{"--step=" + text});
    return step;
  };
  EXPECT_EQ(step_of("0"), 0);
  EXPECT_EQ(step_of("600"), 600);
  EXPECT_EQ(step_of("999999999999999999"), 999'999'999'999'999'999);
  for (const char* text : {"1000000000000000000", "-1", "+1", "1.5", "1e3", "0x10", "6 0", "x"})
    EXPECT_THROW(step_of(text), CLI::ParseError) << text;
}

TEST(AddS3, LeavesWhatIsNotGivenToTheEnvironment) {
  const auto options_of = [](const std::string& line) {
    CLI::App app;
    storage::S3Options s3;
    add_s3(app, s3);
    app.parse(line);
    return s3;
  };
  EXPECT_EQ(options_of("").path_style, std::nullopt);
  EXPECT_EQ(options_of("--path-style").path_style, true);
  EXPECT_EQ(options_of("--virtual-host").path_style, false);
  const storage::S3Options both = options_of("--endpoint https://h:1 --region r");
  EXPECT_EQ(both.endpoint, "https://h:1");
  EXPECT_EQ(both.region, "r");
}

}  // namespace
}  // namespace trainyard::cli
