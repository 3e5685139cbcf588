#include "worker/rank/end_report.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "environment_table.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::rank {
namespace {

using nlohmann::json;

const RankEnd end{.exit_code = 93, .reason = "InvalidSpec", .message = "the spec is no JSON", .culprit = {}};
const Time time{std::chrono::milliseconds{1'700'000'000'900}};

TEST(ErrorFile, HoldsTheReasonAndTheTimeWhereTorchrunReadsThem) {
  EXPECT_EQ(json::parse(make_error_file(end, time)), json::parse(R"({"message": {
    "message": "InvalidSpec: the spec is no JSON", "errorCode": 93, "extraInfo": {"timestamp": "1700000000"}}})"));
}

TEST(ErrorFile, HoldsATextThatIsNoUtf8WithAMarkForWhatIsNone) {
  const RankEnd torn{.exit_code = 1, .reason = "Error", .message = "the file \xff", .culprit = {}};
  EXPECT_EQ(json::parse(make_error_file(torn, time)).at("message").at("message"), "Error: the file \xef\xbf\xbd");
}

TEST(ErrorFile, IsWrittenOnlyForAFailureAndOnlyWhereTorchrunAsksForIt) {
  const fakes::TemporaryFolder folder;
  const std::string path = folder.path() + "/error.json";
  const Environment environment = environment_of({{"TORCHELASTIC_ERROR_FILE", path}});
  EXPECT_TRUE(write_error_file(environment_of({}), end, time));
  EXPECT_TRUE(
      write_error_file(environment, {.exit_code = 0, .reason = "Completed", .message = "", .culprit = {}}, time));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(write_error_file(environment, end, time));
  EXPECT_EQ(fakes::text_of(path), make_error_file(end, time));
}

TEST(ErrorFile, SaysThatItCannotBeWritten) {
  const auto written = write_error_file(environment_of({{"TORCHELASTIC_ERROR_FILE", "/no/such/folder/x"}}), end, time);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().kind, ErrorKind::io);
  EXPECT_EQ(written.error().message, "writing torchrun's error file /no/such/folder/x failed");
}

}  // namespace
}  // namespace trainyard::rank
