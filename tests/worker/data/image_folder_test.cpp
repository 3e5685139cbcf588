#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/data/pictures.hpp"
#include "worker/data/decode_image.hpp"
#include "worker/data/image_folder.hpp"
#include "worker/data/image_folder_dataset.hpp"
#include "worker/data/open_data.hpp"

namespace trainyard::data {
namespace {

using fakes::jpeg_of;
using fakes::plain_picture;
using fakes::png_of;
using testing::HasSubstr;

class ImageFolderTest : public testing::Test {
 protected:
  ImageFolderTest() {
    write("train/cat/b.PNG", png_of(plain_picture(10, 20, 255, 0, 0)));
    write("train/cat/a.jpeg", jpeg_of(plain_picture(16, 16, 0, 255, 0)));
    write("train/Zebra/10.png", png_of(gradient_picture()));
    write("train/dog/1.jpg", jpeg_of(plain_picture(16, 16, 0, 0, 255)));
    write("train/dog/notes.txt", "no image");
    write("train/.hidden/1.jpg", "no image");
    write("val/dog/1.png", png_of(plain_picture(8, 8, 1, 2, 3)));
  }

  static torch::Tensor gradient_picture() {
    return torch::arange(9 * 13 * 3, torch::kInt32).remainder_(251).to(torch::kUInt8).view({9, 13, 3});
  }
  void write(const std::string& name, const std::string& bytes) {
    std::filesystem::create_directories(folder_.file(name).parent_path());
    folder_.write(name, bytes);
  }
  [[nodiscard]] DataSource source(const std::string& options) const {
    DataSource source;
    source.folder = folder_.path();
    source.options = Options{options, "training.data.options"};
    return source;
  }
  [[nodiscard]] Result<Datasets> open(const std::string& options = R"({"size": 4})") const {
    return open_data(source(options), api::DataFormat::images);
  }
  /// The message of the InvalidJob that `act` throws.
  static std::string refusal(const std::function<void()>& act) {
    try {
      act();
    } catch (const InvalidJob& error) {
      return error.what();
    }
    return "";
  }

  fakes::TemporaryFolder folder_;
};

TEST_F(ImageFolderTest, NumbersClassesAndFilesByTheirNames) {
  const auto training = list_training_images(folder_.path());
  ASSERT_TRUE(training.has_value()) << training.error().message;
  EXPECT_EQ(training->classes, (std::vector<std::string>{"Zebra", "cat", "dog"}));
  EXPECT_EQ(training->files, (std::vector<std::string>{"Zebra/10.png", "cat/a.jpeg", "cat/b.PNG", "dog/1.jpg"}));
  EXPECT_EQ(training->labels, (std::vector<std::int64_t>{0, 1, 1, 2}));
  const auto validation = list_validation_images(folder_.path(), *training);
  ASSERT_TRUE(validation.has_value()) << validation.error().message;
  EXPECT_EQ(validation->labels, std::vector<std::int64_t>{2}) << "the label of the training set";
}

TEST_F(ImageFolderTest, GathersSquaresOfTheMiddle) {
  const auto datasets = open(R"({"size": 4, "resize": 5})");
  ASSERT_TRUE(datasets.has_value()) << datasets.error().message;
  EXPECT_EQ(datasets->train->size(), 4);
  EXPECT_EQ(datasets->train->loader_threads(), 2);
  const Batch batch = datasets->train->gather(torch::tensor({3, 0, 2}, torch::kInt64));
  EXPECT_EQ(batch.inputs.sizes(), (torch::IntArrayRef{3, 3, 4, 4}));
  EXPECT_TRUE(batch.targets.equal(torch::tensor({2, 0, 1}, torch::kInt64)));
  EXPECT_NEAR(batch.inputs[0][2].min().item<float>(), 1, 0.02) << "blue";
  EXPECT_NEAR(batch.inputs[0][0].max().item<float>(), 0, 0.02);
  EXPECT_TRUE(batch.inputs[2][0].eq(1).all().item<bool>()) << "red";
  const torch::Tensor whole = gradient_picture().permute({2, 0, 1}).contiguous().unsqueeze(0);
  const torch::Tensor small = at::_upsample_bilinear2d_aa(whole, {5, 7}, false)[0];
  EXPECT_TRUE(batch.inputs[1].equal(small.slice(1, 0, 4).slice(2, 2, 6).to(torch::kFloat) / 255));
}

TEST_F(ImageFolderTest, ChangesTrainingImagesByEpochAlone) {
  const auto datasets = open(
      R"({"size": 4, "randomResizedCrop": true, "horizontalFlip": true, "mean": [0.5, 0.5, 0.5], "std": [2, 2, 2]})");
  ASSERT_TRUE(datasets.has_value()) << datasets.error().message;
  const torch::Tensor ids = torch::zeros({1}, torch::kInt64);
  const torch::Tensor first = datasets->train->gather_in_epoch(ids, 0).inputs;
  EXPECT_TRUE(first.equal(datasets->train->gather_in_epoch(ids, 0).inputs));
  EXPECT_FALSE(first.equal(datasets->train->gather_in_epoch(ids, 1).inputs));
  EXPECT_TRUE(datasets->train->gather(ids).inputs.equal(datasets->train->gather(ids).inputs));
  EXPECT_GE(first.min().item<float>(), -0.25F);
  EXPECT_LT(first.min().item<float>(), 0);
}

TEST_F(ImageFolderTest, MirrorsHalfOfTheImages) {
  const auto plain = open(R"({"size": 4})");
  const auto mirroring = open(R"({"size": 4, "horizontalFlip": true})");
  const torch::Tensor ids = torch::zeros({1}, torch::kInt64);
  const torch::Tensor image = plain->train->gather(ids).inputs;
  int mirrored = 0;
  for (std::int64_t epoch = 0; epoch < 40; ++epoch) {
    const torch::Tensor trained = mirroring->train->gather_in_epoch(ids, epoch).inputs;
    const bool is_mirrored = trained.equal(image.flip(3));
    EXPECT_TRUE(is_mirrored || trained.equal(image));
    mirrored += is_mirrored ? 1 : 0;
  }
  EXPECT_GT(mirrored, 10);
  EXPECT_LT(mirrored, 30);
}

TEST_F(ImageFolderTest, ChangesOnlyWhatIsAskedForAndOnlyInTraining) {
  const torch::Tensor ids = torch::arange(4);
  const auto plain = open(R"({"size": 4})");
  const torch::Tensor images = plain->train->gather(ids).inputs;
  const auto mirroring = open(R"({"size": 4, "horizontalFlip": true})");
  EXPECT_TRUE(mirroring->train->gather(ids).inputs.equal(images)) << "no epoch, no change";
  for (std::int64_t epoch = 0; epoch < 4; ++epoch)
    EXPECT_TRUE(plain->train->gather_in_epoch(ids, epoch).inputs.equal(images)) << epoch;
  const auto cropping = open(R"({"size": 4, "randomResizedCrop": true})");
  EXPECT_TRUE(cropping->train->gather(ids).inputs.equal(images));
  const torch::Tensor first = torch::zeros({1}, torch::kInt64);
  EXPECT_FALSE(cropping->train->gather_in_epoch(first, 0).inputs.equal(images.slice(0, 0, 1)));
}

TEST_F(ImageFolderTest, ResizesToEightSeventhsOfTheSizeUnlessTold) {
  for (const auto& [size, resize] : {std::pair{7, 8}, std::pair{8, 10}, std::pair{224, 256}}) {
    DataSource options = source(R"({"size": )" + std::to_string(size) + "}");
    EXPECT_EQ(read_picture_changes(options).resize, resize);
  }
}

TEST_F(ImageFolderTest, GathersOnSeveralThreadsAtOnce) {
  const auto datasets = open(R"({"size": 8, "randomResizedCrop": true, "horizontalFlip": true})");
  ASSERT_TRUE(datasets.has_value()) << datasets.error().message;
  const torch::Tensor ids = torch::arange(4);
  std::vector<torch::Tensor> alone;
  for (std::int64_t epoch = 0; epoch < 8; ++epoch) alone.push_back(datasets->train->gather_in_epoch(ids, epoch).inputs);
  std::vector<torch::Tensor> together(8);
  {
    std::vector<std::jthread> threads;
    for (std::size_t epoch = 0; epoch < 8; ++epoch) {
      threads.emplace_back([&, epoch] {
        together[epoch] = datasets->train->gather_in_epoch(ids, static_cast<std::int64_t>(epoch)).inputs;
      });
    }
  }
  for (std::size_t epoch = 0; epoch < 8; ++epoch) EXPECT_TRUE(alone[epoch].equal(together[epoch])) << epoch;
}

TEST_F(ImageFolderTest, MakesGrayOfColours) {
  const auto datasets = open(R"({"size": 4, "channels": 1})");
  const Batch batch = datasets->train->gather(torch::tensor({2}, torch::kInt64));
  ASSERT_EQ(batch.inputs.sizes(), (torch::IntArrayRef{1, 1, 4, 4}));
  EXPECT_TRUE(batch.inputs.eq(76 / 255.0F).all().item<bool>()) << "red has 299 of 1000 parts";
  for (const auto& [color, gray] :
       {std::pair{plain_picture(8, 8, 0, 255, 0), 150}, {plain_picture(8, 8, 0, 0, 255), 29}}) {
    write("train/cat/b.PNG", png_of(color));
    EXPECT_EQ(load_picture(folder_.file("train/cat/b.PNG"), 1).max().item<int>(), gray);
  }
}

TEST_F(ImageFolderTest, TrainsWithoutValidationOnlyWhenToldSo) {
  std::filesystem::remove_all(folder_.file("val"));
  EXPECT_EQ(open().error().kind, ErrorKind::not_found);
  EXPECT_THAT(open().error().message, HasSubstr("has neither a folder val nor validation"));
  const auto training_alone = open(R"({"size": 4, "validation": false})");
  ASSERT_TRUE(training_alone.has_value());
  EXPECT_EQ(training_alone->validation, nullptr);
  write("validation/cat/1.png", png_of(plain_picture(8, 8, 1, 2, 3)));
  EXPECT_EQ(open()->validation->gather(torch::zeros({1}, torch::kInt64)).targets.item<std::int64_t>(), 1);
  write("val/dog/1.png", png_of(plain_picture(8, 8, 1, 2, 3)));
  EXPECT_EQ(open()->validation->gather(torch::zeros({1}, torch::kInt64)).targets.item<std::int64_t>(), 2)
      << "val before validation";
}

TEST_F(ImageFolderTest, NamesWhatIsWrongWithItsFolders) {
  struct Case {
    std::string what;
    std::function<void()> harm;
    std::string message;
  };
  const auto root = [this](const std::string& name) { return folder_.file(name); };
  const fakes::TemporaryFolder elsewhere;
  std::filesystem::create_directory(elsewhere.file("dog"));
  elsewhere.write("dog/1.png", png_of(plain_picture(8, 8, 1, 2, 3)));
  const std::vector<Case> cases{
      {"a class that training lacks", [&] { write("val/cats/1.png", "x"); },
       "val/cats is a class that " + root("train").string() + " does not have; did you mean cat?"},
      {"a class after the last one of training", [&] { write("val/zoo/1.png", "x"); },
       "val/zoo is a class that " + root("train").string() + " does not have"},
      {"a class without images", [&] { std::filesystem::create_directory(root("train/fish")); },
       "the class " + root("train/fish").string() + " has no .jpg, .jpeg or .png file"},
      {"a folder in a class", [&] { write("train/cat/more/1.png", "x"); }, "train/cat/more is a folder"},
      {"no class in validation", [&] { std::filesystem::remove_all(root("val/dog")); }, "val has no folders"},
      {"no image in validation", [&] { std::filesystem::remove(root("val/dog/1.png")); },
       "val has no .jpg, .jpeg or .png file in any class"},
      {"a link out of the data", [&] { std::filesystem::create_symlink("/etc/passwd", root("train/cat/x.png")); },
       "the link " + root("train/cat/x.png").string() + " leads to /etc/passwd, out of the data's folder"},
      {"a linked class", [&] { std::filesystem::create_directory_symlink("/usr", root("train/usr")); },
       "train/usr leads to /usr, out of the data's folder"},
      {"a training set that is a link out of the data",
       [&] {
         std::filesystem::remove_all(root("train"));
         std::filesystem::create_directory_symlink(elsewhere.path(), root("train"));
       },
       "the link " + root("train").string() + " leads to "},
      {"a validation set that is a link out of the data",
       [&] {
         std::filesystem::remove_all(root("val"));
         std::filesystem::create_directory_symlink(elsewhere.path(), root("val"));
       },
       "the link " + root("val").string() + " leads to "},
      {"a link to nothing", [&] { std::filesystem::create_symlink("nothing", root("train/cat/x.png")); },
       "leads nowhere"},
      {"no training set", [&] { std::filesystem::remove_all(root("train")); },
       "the data's folder " + root("train").string() + " cannot be read: No such file or directory"},
  };
  const fakes::TemporaryFolder kept;
  std::filesystem::copy(folder_.path(), kept.path(), std::filesystem::copy_options::recursive);
  for (const Case& c : cases) {
    c.harm();
    const auto datasets = open();
    ASSERT_FALSE(datasets.has_value()) << c.what;
    EXPECT_THAT(datasets.error().message, HasSubstr(c.message)) << c.what;
    for (const char* part : {"train", "val"}) std::filesystem::remove_all(root(part));
    std::filesystem::copy(kept.path(), folder_.path(), std::filesystem::copy_options::recursive);
  }
}

TEST_F(ImageFolderTest, FollowsALinkWithinTheData) {
  std::filesystem::create_symlink("../dog/1.jpg", folder_.file("train/cat/c.jpg"));
  const auto datasets = open();
  ASSERT_TRUE(datasets.has_value()) << datasets.error().message;
  EXPECT_EQ(datasets->train->size(), 5);
}

TEST_F(ImageFolderTest, FollowsNoLinkIntoAFolderWhoseNameOnlyBeginsLikeThatOfTheData) {
  std::filesystem::create_directory(folder_.file("data"));
  std::filesystem::rename(folder_.file("train"), folder_.file("data/train"));
  write("data2/1.jpg", jpeg_of(plain_picture(8, 8, 1, 2, 3)));
  std::filesystem::create_symlink("../../../data2/1.jpg", folder_.file("data/train/cat/c.jpg"));
  const auto training = list_training_images(folder_.file("data"));
  ASSERT_FALSE(training.has_value());
  EXPECT_EQ(training.error().kind, ErrorKind::invalid);
  EXPECT_THAT(training.error().message, HasSubstr("out of the data's folder"));
}

TEST_F(ImageFolderTest, NamesThePictureThatCannotBeDecoded) {
  write("train/cat/b.PNG", "no image");
  const auto datasets = open();
  const auto gather = [&](std::int64_t id) {
    return [&, id] { (void)datasets->train->gather(torch::tensor({id}, torch::kInt64)); };
  };
  EXPECT_EQ(refusal(gather(2)), "the picture " + folder_.file("train/cat/b.PNG").string() +
                                    " cannot be decoded: it is neither JPEG nor PNG by its first bytes; replace the "
                                    "file or remove it");
  write("train/cat/b.PNG", "");
  EXPECT_THAT(refusal(gather(2)), HasSubstr("b.PNG is empty"));
  std::filesystem::remove(folder_.file("train/cat/b.PNG"));
  EXPECT_THROW(gather(2)(), std::runtime_error) << "another attempt may find it";
  const std::string image_of_one_pixel = png_of(plain_picture(1, 1, 1, 1, 1));
  std::string huge = image_of_one_pixel;
  huge.replace(16, 8, fakes::big_endian_text(1U << 19) + fakes::big_endian_text(1U << 19));
  const std::string header = huge.substr(12, 17);
  write("train/cat/b.PNG",
        huge.substr(0, 8) + fakes::png_chunk(header.substr(0, 4), header.substr(4)) + huge.substr(33));
  EXPECT_THAT(refusal(gather(2)), HasSubstr("it has 524288 x 524288 pixels; from 1 to 67108864 are read; replace the"));
  write("train/cat/b.PNG", png_of(plain_picture(1, 300'000, 1, 1, 1)));
  const auto large = open(R"({"size": 4, "resize": 64})");
  EXPECT_THAT(refusal([&] { (void)large->train->gather(torch::tensor({2}, torch::kInt64)); }),
              HasSubstr("is too narrow: resized, it has 19200000 x 64 pixels"));
}

TEST_F(ImageFolderTest, DoesNotBlameAFileForMissingMemory) {
  write("train/cat/b.PNG", fakes::progressive_jpeg_of(plain_picture(256, 256, 1, 2, 3)));
  const auto datasets = open();
  ASSERT_EQ(setenv("JPEGMEM", "1", 1), 0);  // libjpeg's own bound, in KiB.
  std::string message;
  try {
    (void)datasets->train->gather(torch::tensor({2}, torch::kInt64));
  } catch (const InvalidJob& error) {
    ADD_FAILURE() << "another attempt may succeed, but got " << error.what();
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  ASSERT_EQ(unsetenv("JPEGMEM"), 0);
  EXPECT_THAT(message, HasSubstr("b.PNG cannot be decoded: libjpeg got too little memory for it"));
}

TEST_F(ImageFolderTest, RefusesOptionsOutsideTheirBounds) {
  struct Case {
    std::string json, message;
  };
  const std::vector<Case> cases{
      {R"({"size": 0})", "size: must be a whole number from 1 to 4096, got 0"},
      {R"({"size": 4097})", "size: must be a whole number from 1 to 4096, got 4097"},
      {R"({"resize": 8193})", "resize: must be a whole number from 1 to 8192, got 8193"},
      {R"({"size": 64, "resize": 63})", "resize: must be at least the size 64, got 63"},
      {R"({"channels": 2})", "channels: must be 1 (gray) or 3 (colours), got 2"},
      {R"({"channels": 4})", "channels: must be a whole number from 1 to 3, got 4"},
      {R"({"channels": 0})", "channels: must be a whole number from 1 to 3, got 0"},
      {R"({"cropScale": [0.5, 1.5]})", "cropScale[1]: must be a number from 0.0001 to 1, got 1.5"},
      {R"({"cropScale": [0.1, 0.2, 0.3]})", "cropScale: must be two numbers, the smaller one first"},
      {R"({"cropRatio": [2, 1]})", "cropRatio: must be two numbers, the smaller one first"},
      {R"({"cropRatio": [1, 101]})", "cropRatio[1]: must be a number from 0.01 to 100, got 101"},
      {R"({"cropScale": [0.5]})", "cropScale: must be two numbers, the smaller one first"},
      {R"({"cropScale": [0.5, 0.1]})", "cropScale: must be two numbers, the smaller one first"},
      {R"({"cropRatio": [0, 1]})", "cropRatio[0]: must be a number from 0.01 to 100, got 0"},
      {R"({"channels": 1, "mean": [0.5, 0.5, 0.5]})", "mean: must have a number for each of the 1 channels, got 3"},
  };
  for (const Case& c : cases)
    EXPECT_EQ(refusal([&] { (void)open(c.json); }), "training.data.options." + c.message) << c.json;
}

TEST_F(ImageFolderTest, ReadsTheBoundsOfTheRandomPart) {
  const auto part = [&](const std::string& options) { return read_picture_changes(source(options)).random_part; };
  EXPECT_FALSE(part(R"({"cropScale": [0.25, 0.5]})")) << "nobody asked for a random part";
  const auto usual = part(R"({"randomResizedCrop": true})");
  ASSERT_TRUE(usual);
  EXPECT_EQ(usual->scale, (std::array{0.08, 1.0}));
  EXPECT_EQ(usual->ratio, (std::array{3.0 / 4.0, 4.0 / 3.0}));
  const auto own = part(R"({"randomResizedCrop": true, "cropScale": [0.25, 0.25], "cropRatio": [1, 2]})");
  ASSERT_TRUE(own);
  EXPECT_EQ(own->scale, (std::array{0.25, 0.25}));
  EXPECT_EQ(own->ratio, (std::array{1.0, 2.0}));
}

TEST_F(ImageFolderTest, ChangesTrainingImagesByTheJobsSeed) {
  const auto inputs = [&](std::int64_t seed) {
    DataSource seeded = source(R"({"size": 4, "randomResizedCrop": true})");
    seeded.seed = seed;
    return open_data(seeded, api::DataFormat::images)
        ->train->gather_in_epoch(torch::zeros({1}, torch::kInt64), 0)
        .inputs;
  };
  EXPECT_TRUE(inputs(1).equal(inputs(1)));
  EXPECT_FALSE(inputs(1).equal(inputs(2)));
}

TEST_F(ImageFolderTest, HasAnIdThatTellsWhereANameEnds) {
  const auto id = [](std::vector<std::string> classes, std::vector<std::string> files) {
    return checksum_of({.folder = {}, .classes = std::move(classes), .files = std::move(files), .labels = {}});
  };
  EXPECT_EQ(id({"cat", "dog"}, {"cat/1.png"}), "83af78f1b17771bf") << "checkpoints of earlier versions have this id";
  EXPECT_NE(id({"ab", "c"}, {"x"}), id({"a", "bc"}, {"x"}));
  EXPECT_NE(id({"a"}, {"xy", "z"}), id({"a"}, {"x", "yz"}));
  EXPECT_NE(id({"a"}, {"x", "y"}), id({"a"}, {"y", "x"}));
}

TEST_F(ImageFolderTest, HasAnIdOfItsNames) {
  const std::string id = open()->train->id();
  EXPECT_EQ(open(R"({"size": 8})")->train->id(), id);
  write("train/cat/c.png", "x");
  EXPECT_NE(open()->train->id(), id);
}

}  // namespace
}  // namespace trainyard::data
