#include "cli/init_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"

namespace trainyard::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in{file};
  return {std::istreambuf_iterator<char>{in}, {}};
}

class InitModel : public testing::Test {
 protected:
  int run(const std::string& name, const std::string& to) {
    out_.str("");
    errors_.str("");
    return init_model({.name = name, .folder = to, .prefix = ""}, out_, errors_);
  }

  fakes::TemporaryFolder folder_;
  std::ostringstream out_, errors_;
};

TEST_F(InitModel, WritesTheExampleUnderItsOwnName) {
  const std::string to = folder_.path() + "/line-fit";
  ASSERT_EQ(run("line_fit", to), 0) << errors_.str();
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator{paths::source("examples/own-model")}) {
    EXPECT_EQ(text_of(to + "/" + entry.path().filename().string()), text_of(entry.path())) << entry.path();
    ++count;
  }
  EXPECT_EQ(count, own_model_files().size()) << "every file of the example is written";
}

TEST_F(InitModel, NamesModelTypeAndJobAfterTheName) {
  const std::string to = folder_.path() + "/net";
  ASSERT_EQ(run("my_res_net50", to), 0) << errors_.str();
  EXPECT_THAT(text_of(to + "/my_res_net50.cpp"), HasSubstr("TRAINYARD_MAIN(MyResNet50)"));
  EXPECT_THAT(text_of(to + "/my_res_net50.yaml"), HasSubstr("name: my-res-net50\n"));
  EXPECT_THAT(text_of(to + "/my_res_net50.yaml"), HasSubstr("model: {name: my_res_net50"));
  EXPECT_THAT(text_of(to + "/CMakeLists.txt"), HasSubstr("add_executable(my_res_net50 my_res_net50.cpp)"));
  for (const auto& entry : std::filesystem::directory_iterator{to}) {
    EXPECT_THAT(text_of(entry.path()), Not(testing::ContainsRegex("[Ll]ine[-_]?[Ff]it"))) << entry.path();
  }
  EXPECT_THAT(out_.str(), HasSubstr("trainyard run my_res_net50.yaml --worker build/my_res_net50"));
}

TEST_F(InitModel, PrintsTheCommandsOfTheInstallationThatItIsIn) {
  const std::string prefix = folder_.path() + "/trainyard";
  EXPECT_EQ(installation_of(prefix + "/bin/trainyard"), "") << "a build folder";
  std::filesystem::create_directories(prefix + "/lib/cmake/trainyard");
  std::ofstream{prefix + "/lib/cmake/trainyard/trainyard-config.cmake"} << "# a package";
  EXPECT_EQ(installation_of(prefix + "/bin/trainyard"), prefix);
  const std::string to = folder_.path() + "/net";
  ASSERT_EQ(init_model({.name = "my_net", .folder = to, .prefix = prefix}, out_, errors_), 0);
  EXPECT_THAT(out_.str(), HasSubstr("-DCMAKE_PREFIX_PATH=" + prefix + " && "));
  EXPECT_THAT(out_.str(), HasSubstr(prefix + "/bin/trainyard run my_net.yaml --worker build/my_net"));
  const std::string readme = text_of(to + "/README.md");
  EXPECT_THAT(readme, HasSubstr("installed in `" + prefix + "`"));
  EXPECT_THAT(readme, HasSubstr("-DCMAKE_PREFIX_PATH=" + prefix + "\n"));
  EXPECT_THAT(readme, HasSubstr("\n" + prefix + "/bin/trainyard run my_net.yaml"));
}

TEST_F(InitModel, RefusesNamesThatTheProgramWouldNotHave) {
  for (const char* name : {"", "MyNet", "my-net", "my__net", "my_", "2net", "net_50", "a_b", "../net", "all", "install",
                           "torch", "a_name_that_is_longer_than_forty_characters"}) {
    EXPECT_EQ(run(name, folder_.path() + "/net"), 2) << name;
    EXPECT_THAT(errors_.str(), HasSubstr("cannot be a model's name: use lower-case words joined by '_'")) << name;
    EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/net"));
  }
}

TEST_F(InitModel, TakesANameOfFortyCharactersAndAFolderThatIsEmpty) {
  const std::string longest(40, 'a');
  std::filesystem::create_directory(folder_.path() + "/net");
  EXPECT_EQ(run(longest, folder_.path() + "/net"), 0) << errors_.str();
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/net/" + longest + ".cpp"));
  EXPECT_EQ(run(longest + "a", folder_.path() + "/other"), 2);
}

TEST_F(InitModel, SaysWhereToPutTheInstallationWhereItKnowsNone) {
  ASSERT_EQ(run("my_net", folder_.path() + "/net"), 0) << errors_.str();
  EXPECT_THAT(out_.str(), HasSubstr("(PREFIX is the folder where Trainyard is installed)"));
  EXPECT_THAT(out_.str(), HasSubstr("-DCMAKE_PREFIX_PATH=PREFIX && "));
  EXPECT_THAT(out_.str(), HasSubstr("\n  trainyard run my_net.yaml --worker build/my_net\n"));
}

TEST_F(InitModel, LeavesAFolderThatHasFilesAsItIs) {
  std::ofstream{folder_.path() + "/mine"} << "kept";
  EXPECT_EQ(run("my_net", folder_.path()), 1);
  EXPECT_THAT(errors_.str(), HasSubstr("exists and is not an empty folder; name another one with --dir"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator{folder_.path()}, {}), 1);
}

TEST_F(InitModel, NamesTheFolderThatItCannotMake) {
  std::ofstream{folder_.path() + "/file"} << "not a folder";
  EXPECT_EQ(run("my_net", folder_.path() + "/file/net"), 1);
  EXPECT_THAT(errors_.str(), HasSubstr("/file/net: "));
}

}  // namespace
}  // namespace trainyard::cli
