#include "storage/arrow_module.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::storage {
namespace {

using testing::HasSubstr;

TEST(ArrowModule, IsSaidToBeMissingWithWhatBringsIt) {
  const fakes::TemporaryFolder folder;
  const auto module = load_arrow_module(folder.file("bin"));
  ASSERT_FALSE(module);
  EXPECT_EQ(module.error().kind, ErrorKind::invalid);
  EXPECT_THAT(module.error().message, HasSubstr("libtrainyard_arrow.so"));
  EXPECT_THAT(module.error().message, HasSubstr(folder.path() + "/bin"));
  EXPECT_THAT(module.error().message, HasSubstr("scripts/setup clouds"));
}

TEST(ArrowModule, ThatIsNoLibraryIsNamed) {
  const fakes::TemporaryFolder folder;
  const std::string path = folder.write("libtrainyard_arrow.so", "no library").string();
  const auto module = load_arrow_module(folder.path());
  ASSERT_FALSE(module);
  EXPECT_EQ(module.error().kind, ErrorKind::invalid);
  EXPECT_THAT(module.error().message, HasSubstr(path + " does not load"));
}

// This test program has none beside it.
TEST(OpenStore, NamesTheUriThatNeedsTheModule) {
  const auto store = open_store("gs://models/run");
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, ErrorKind::invalid);
  EXPECT_THAT(store.error().message, HasSubstr("gs://models/run: "));
}

}  // namespace
}  // namespace trainyard::storage
