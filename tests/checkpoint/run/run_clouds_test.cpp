// Runs over gs:// and az://.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/checkpoint/run/run_contract.hpp"
#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"
#include "tests/storage/cloud_fixture.hpp"

namespace trainyard::checkpoint {
namespace {

class InACloud : public storage::CloudFixture {
 protected:
  OpenStore open_store = [this] { return open(); };
};
INSTANTIATE_TEST_SUITE_P(Clouds, InACloud, testing::Values("gs", "az"), storage::cloud_name);

TEST_P(InACloud, ARunSavesResumesAndTidiesUp) {
  saves_resumes_and_tidies_up(open_store);
}
TEST_P(InACloud, TheOlderOfTwoWritersIsFenced) {
  fences_the_older_of_two_writers(open_store);
}

TEST_P(InACloud, TheProgramReadsWhatARunSaved) {
  TestRun run{open()};
  ASSERT_TRUE(run.restore());
  ASSERT_TRUE(run.save(10));
  const fakes::TemporaryFolder folder;
  std::string command;
  for (const auto& [name, value] : server().variables_at(server().port())) {
    command += fmt::format("{}='{}' ", name, value);
  }
  command += fmt::format("{} checkpoints verify --all {} > {} 2>&1", paths::program("trainyard"), to_string(uri_of()),
                         folder.file("out").string());
  EXPECT_EQ(std::system(command.c_str()), 0) << fakes::text_of(folder.file("out"));
}

}  // namespace
}  // namespace trainyard::checkpoint
