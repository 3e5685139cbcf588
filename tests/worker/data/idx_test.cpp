#include "worker/data/idx.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <string>

#include "tests/skips.hpp"

namespace trainyard::data {
namespace {

using std::string_literals::operator""s;
using testing::HasSubstr;

class IdxTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() /
        ("trainyard-idx-"s + testing::UnitTest::GetInstance()->current_test_info()->name() + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& bytes) {
    std::ofstream{folder_ / name, std::ios::binary} << bytes;
    return folder_ / name;
  }
  std::filesystem::path write_compressed(const std::string& name, const std::string& bytes) {
    gzFile file = gzopen((folder_ / name).c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return folder_ / name;
  }

  std::filesystem::path folder_;
};

const std::string two_images = "\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x03"s + "abcdef"s + "ghijkl"s;
const std::string two_labels = "\0\0\x08\x01\0\0\0\x02\x07\x09"s;

TEST_F(IdxTest, ReadsPlainFilesByTheirHeader) {
  const auto images = read_idx(write("images", two_images), 3);
  ASSERT_TRUE(images.has_value()) << images.error().message;
  EXPECT_EQ(images->sizes(), (torch::IntArrayRef{2, 2, 3}));
  EXPECT_EQ((*images)[1][0][2].item<int>(), 'i');
}

TEST_F(IdxTest, ReadsCompressedFilesToTheSameValues) {
  const auto plain = read_idx(write("images", two_images), 3);
  const auto compressed = read_idx(write_compressed("images.gz", two_images), 3);
  ASSERT_TRUE(plain.has_value() && compressed.has_value());
  EXPECT_TRUE(torch::equal(*plain, *compressed));
}

TEST_F(IdxTest, RefusesWhatIsNotTheFileItShouldBe) {
  struct Case {
    std::string what, bytes;
    std::int64_t dimensions;
    ErrorKind kind;
    std::string message;
  };
  const std::vector<Case> cases{
      {"text", "hello, world", 3, ErrorKind::invalid, "is not an IDX file"},
      {"a second byte that is not zero", "\0\1\x08\x01\0\0\0\x01\7"s, 1, ErrorKind::invalid, "is not an IDX file"},
      {"no images", "\0\0\x08\x03\0\0\0\0\0\0\0\x02\0\0\0\x02"s, 3, ErrorKind::invalid, "its shape has a zero"},
      {"a header that no compression explains",
       "\0\0\x08\x01\0\x0f\xff\xff"
       "abc"s,
       1, ErrorKind::corrupt, "has 11 bytes; its header claims 1048575: it was cut off"},
      {"empty", "", 3, ErrorKind::invalid, "is not an IDX file"},
      {"floats", "\0\0\x0d\x01\0\0\0\x01\0\0\0\0"s, 1, ErrorKind::invalid, "type 0x0d"},
      {"labels for images", two_labels, 3, ErrorKind::invalid, "1 dimensions; 3 were expected"},
      {"cut header", two_images.substr(0, 9), 3, ErrorKind::corrupt, "ends inside its header"},
      {"cut data", two_images.substr(0, 20), 3, ErrorKind::corrupt, "holds 4 bytes of data; its header says 12"},
      {"longer data", two_images + "m", 3, ErrorKind::corrupt, "more than the 12 bytes"},
      {"mad header", "\0\0\x08\x03\x7f\xff\xff\xff\x7f\xff\xff\xff\x7f\xff\xff\xff"s, 3, ErrorKind::corrupt,
       "claims more than"},
  };
  for (const Case& c : cases) {
    const auto values = read_idx(write("file", c.bytes), c.dimensions);
    ASSERT_FALSE(values.has_value()) << c.what;
    EXPECT_EQ(values.error().kind, c.kind) << c.what;
    EXPECT_THAT(values.error().message, HasSubstr(c.message)) << c.what;
  }
}

TEST_F(IdxTest, RefusesACompressedFileThatWasCutOff) {
  const auto file = write_compressed("images.gz", two_images + std::string(1000, 'x'));
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 12);
  EXPECT_FALSE(read_idx(file, 3).has_value());
}

TEST_F(IdxTest, ReadsAsManyImagesAsAllBytesOfTheNumberSay) {
  const auto labels = read_idx(write("labels", "\0\0\x08\x01\0\x01\x02\x03"s + std::string(0x10203, '\5')), 1);
  ASSERT_TRUE(labels.has_value()) << labels.error().message;
  EXPECT_EQ(labels->numel(), 0x10203);
}

TEST_F(IdxTest, RefusesACompressedFileOfWrongBytes) {
  const auto file = write_compressed("labels.gz", two_labels);
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(file));
  std::fstream{file, std::ios::binary | std::ios::in | std::ios::out}.seekp(size - 8).write("wrong", 4);  // its CRC
  const auto labels = read_idx(file, 1);
  ASSERT_FALSE(labels.has_value());
  EXPECT_EQ(labels.error().kind, ErrorKind::corrupt);
  EXPECT_THAT(labels.error().message, HasSubstr("reading " + file.string()));
}

TEST_F(IdxTest, TellsAMissingFileFromOneThatCannotBeOpened) {
  EXPECT_EQ(read_idx(folder_ / "missing", 1).error().kind, ErrorKind::not_found);
  std::filesystem::create_symlink("loop", folder_ / "loop");
  const auto loop = read_idx(folder_ / "loop", 1);
  ASSERT_FALSE(loop.has_value());
  EXPECT_EQ(loop.error().kind, ErrorKind::forbidden);
  EXPECT_THAT(loop.error().message, HasSubstr("loop cannot be opened: Too many levels of symbolic links"));
}

TEST_F(IdxTest, PairsImagesAndLabelsOfAPart) {
  write("train-images-idx3-ubyte", two_images);
  write_compressed("train-labels-idx1-ubyte.gz", two_labels);
  const auto part = read_labeled_images(folder_, "train");
  ASSERT_TRUE(part.has_value()) << part.error().message;
  EXPECT_EQ(part->images.sizes(), (torch::IntArrayRef{2, 1, 2, 3}));
  EXPECT_TRUE(torch::equal(part->labels, torch::tensor({7, 9}, torch::kInt64)));
}

TEST_F(IdxTest, TakesThePlainFileWhereACompressedOneIsBesideIt) {
  write("train-images-idx3-ubyte", two_images);
  write("train-labels-idx1-ubyte", two_labels);
  write("train-labels-idx1-ubyte.gz", "no labels");
  const auto part = read_labeled_images(folder_, "train");
  ASSERT_TRUE(part.has_value()) << part.error().message;
  EXPECT_EQ(part->labels.size(0), 2);
}

TEST_F(IdxTest, NamesThePathAndTheFilesThatAreNotThere) {
  write("t10k-images-idx3-ubyte", two_images);
  const auto missing_folder = read_labeled_images(folder_ / "elsewhere", "train");
  ASSERT_FALSE(missing_folder.has_value());
  EXPECT_EQ(missing_folder.error().kind, ErrorKind::not_found);
  EXPECT_THAT(missing_folder.error().message, HasSubstr((folder_ / "elsewhere").string() + " is not a folder"));
  EXPECT_THAT(missing_folder.error().message, HasSubstr("train-images-idx3-ubyte and train-labels-idx1-ubyte"));

  const auto missing_labels = read_labeled_images(folder_, "t10k");
  ASSERT_FALSE(missing_labels.has_value());
  write("train-labels-idx1-ubyte", two_labels);
  EXPECT_THAT(read_labeled_images(folder_, "train").error().message,
              HasSubstr("does not hold train-images-idx3-ubyte ("));
  EXPECT_THAT(missing_labels.error().message, HasSubstr("does not hold t10k-labels-idx1-ubyte (each may end in .gz)"));
}

TEST_F(IdxTest, RefusesUnequalNumbersOfImagesAndLabels) {
  write("train-images-idx3-ubyte", two_images);
  write("train-labels-idx1-ubyte", "\0\0\x08\x01\0\0\0\x01\x07"s);
  const auto part = read_labeled_images(folder_, "train");
  ASSERT_FALSE(part.has_value());
  EXPECT_THAT(part.error().message, HasSubstr("holds 2 images but"));
}

TEST(RealFashionMnist, IsReadWhereDebianInstallsIt) {
  const auto part = read_labeled_images("/usr/share/datasets/fashion-mnist", "t10k");
  if (!part) return tests::cannot_run(part.error().message);
  EXPECT_EQ(part->images.sizes(), (torch::IntArrayRef{10'000, 1, 28, 28}));
  EXPECT_EQ(part->labels.bincount().min().item<std::int64_t>(), 1000);
}

}  // namespace
}  // namespace trainyard::data
