#include "worker/data/open_data.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/types.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/fakes/redirection.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "worker/data/read_file.hpp"

namespace trainyard::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::size_t cifar_image_size = 3 * 32 * 32;

/// A sample of CIFAR whose pixels are all `value`.
std::string cifar_sample(const std::string& labels, char value) {
  return labels + std::string(cifar_image_size, value);
}

DataSource source_of(const fakes::TemporaryFolder& folder, const std::string& options = "{}") {
  DataSource source;
  source.folder = folder.path();
  source.options = Options{options, "training.data.options"};
  return source;
}

void write_cifar10(const fakes::TemporaryFolder& folder) {
  for (char number = 1; number <= 5; ++number) {
    folder.write("data_batch_" + std::to_string(number) + ".bin",
                 cifar_sample({number}, number) + cifar_sample({'\0'}, '\0'));
  }
  folder.write("test_batch.bin", cifar_sample({'\7'}, '\1'));
}

TEST(OpenData, ReadsCifar10InTheOrderOfItsFiles) {
  const fakes::TemporaryFolder folder;
  write_cifar10(folder);
  // The first plane of an image is red, and its rows go from left to right.
  std::string image(cifar_image_size, '\0');
  image[33] = 'r';
  image[1024] = 'g';
  folder.write("data_batch_3.bin", std::string{'\x9'} + image);
  const auto datasets = open_data(source_of(folder), api::DataFormat::cifar10);
  ASSERT_TRUE(datasets.has_value()) << datasets.error().message;
  EXPECT_EQ(datasets->train->size(), 9);
  const Batch batch = datasets->train->gather(torch::arange(9));
  EXPECT_EQ(batch.inputs.sizes(), (torch::IntArrayRef{9, 3, 32, 32}));
  EXPECT_TRUE(batch.targets.equal(torch::tensor({1, 0, 2, 0, 9, 4, 0, 5, 0}, torch::kInt64)));
  EXPECT_FLOAT_EQ(batch.inputs[4][0][1][1].item<float>(), 'r' / 255.0F);
  EXPECT_FLOAT_EQ(batch.inputs[4][1][0][0].item<float>(), 'g' / 255.0F);
  EXPECT_FLOAT_EQ(batch.inputs[7][2][31][31].item<float>(), 5 / 255.0F);
  const Batch validation = datasets->validation->gather(torch::arange(1));
  EXPECT_EQ(validation.targets.item<std::int64_t>(), 7);
}

TEST(OpenData, ReadsTheLabelOfCifar100ThatIsAskedFor) {
  const fakes::TemporaryFolder folder;
  folder.write("train.bin", cifar_sample({'\x13', '\x63'}, '\1') + cifar_sample({'\3', '\0'}, '\2'));
  folder.write("test.bin", cifar_sample({'\2', '\5'}, '\1'));
  const auto labels = [&](const std::string& options) {
    const auto datasets = open_data(source_of(folder, options), api::DataFormat::cifar100);
    EXPECT_TRUE(datasets.has_value());
    EXPECT_NO_THROW(std::ignore = open_data(source_of(folder, R"({"mean": [0, 0, 0]})"), api::DataFormat::cifar100))
        << "three channels";
    EXPECT_EQ(datasets->train->gather(torch::arange(2)).inputs[1].max().item<float>(), 2 / 255.0F);
    return datasets->train->gather(torch::arange(2)).targets;
  };
  EXPECT_TRUE(labels("{}").equal(torch::tensor({99, 0}, torch::kInt64)));
  EXPECT_TRUE(labels(R"({"labels": "coarse"})").equal(torch::tensor({19, 3}, torch::kInt64)));
}

TEST(OpenData, RefusesALabelThatCifar100DoesNotHave) {
  const fakes::TemporaryFolder folder;
  try {
    std::ignore = open_data(source_of(folder, R"({"labels": "medium"})"), api::DataFormat::cifar100);
    FAIL();
  } catch (const InvalidJob& error) {
    EXPECT_STREQ(error.what(), "training.data.options.labels: must be one of fine, coarse, got \"medium\"");
  }
}

TEST(OpenData, CropsImagesInMemoryByTheJobsSeed) {
  const fakes::TemporaryFolder folder;
  const auto inputs = [&](std::int64_t seed) {
    DataSource source = source_of(folder, R"({"randomCropPadding": 8})");
    using std::string_literals::operator""s;
    for (const std::string part : {"train", "t10k"}) {
      folder.write(part + "-images-idx3-ubyte", "\0\0\x08\x03\0\0\0\x01\0\0\0\x01\0\0\0\x10"s + "abcdefghijklmnop");
      folder.write(part + "-labels-idx1-ubyte", "\0\0\x08\x01\0\0\0\x01\x03"s);
    }
    source.seed = seed;
    const auto datasets = open_data(source, api::DataFormat::idx);
    EXPECT_TRUE(datasets.has_value());
    std::vector<torch::Tensor> epochs;
    for (std::int64_t epoch = 0; epoch < 8; ++epoch)
      epochs.push_back(datasets->train->gather_in_epoch(torch::arange(1), epoch).inputs);
    return torch::cat(epochs);
  };
  EXPECT_TRUE(inputs(1).equal(inputs(1)));
  EXPECT_FALSE(inputs(1).equal(inputs(2)));
}

TEST(OpenData, ReadsIdxFilesAsGrayTrainingAndValidation) {
  using std::string_literals::operator""s;
  const fakes::TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte", "\0\0\x08\x03\0\0\0\x01\0\0\0\x01\0\0\0\x01\xff"s);
  folder.write("train-labels-idx1-ubyte", "\0\0\x08\x01\0\0\0\x01\x03"s);
  folder.write("t10k-images-idx3-ubyte", "\0\0\x08\x03\0\0\0\x01\0\0\0\x01\0\0\0\x01\0"s);
  folder.write("t10k-labels-idx1-ubyte", "\0\0\x08\x01\0\0\0\x01\x05"s);
  const auto datasets = open_data(source_of(folder, R"({"mean": [0.5]})"), api::DataFormat::idx);
  ASSERT_TRUE(datasets.has_value()) << datasets.error().message;
  EXPECT_EQ(datasets->train->gather(torch::arange(1)).inputs.item<float>(), 0.5F);
  EXPECT_EQ(datasets->train->gather(torch::arange(1)).targets.item<std::int64_t>(), 3);
  EXPECT_EQ(datasets->validation->gather(torch::arange(1)).targets.item<std::int64_t>(), 5);
}

TEST(OpenData, RefusesFilesThatAreNotCifarsWithFileSampleAndValue) {
  struct Case {
    std::string what, file, bytes, message;
    ErrorKind kind;
  };
  const std::string sample = cifar_sample({'\1'}, '\1');
  const std::vector<Case> cases{
      {"cut", "data_batch_2.bin", sample + sample.substr(0, 100),
       "data_batch_2.bin has 3173 bytes, which are 1 samples of 3073 bytes and 100 bytes more: it was cut off",
       ErrorKind::corrupt},
      {"too long", "data_batch_5.bin", sample + "x", "1 samples of 3073 bytes and 1 bytes more", ErrorKind::corrupt},
      {"a label of no class", "data_batch_4.bin", sample + cifar_sample({'\xa'}, '\1'),
       "data_batch_4.bin: the label of sample 1 is 10, not one of 0 to 9", ErrorKind::corrupt},
      {"nothing", "test_batch.bin", "", "test_batch.bin is empty", ErrorKind::invalid},
  };
  for (const Case& c : cases) {
    const fakes::TemporaryFolder folder;
    write_cifar10(folder);
    folder.write(c.file, c.bytes);
    const auto datasets = open_data(source_of(folder), api::DataFormat::cifar10);
    ASSERT_FALSE(datasets.has_value()) << c.what;
    EXPECT_EQ(datasets.error().kind, c.kind) << c.what;
    EXPECT_THAT(datasets.error().message, HasSubstr(c.message)) << c.what;
  }
  const fakes::TemporaryFolder folder;
  folder.write("train.bin", cifar_sample({'\x14', '\0'}, '\1'));
  const auto coarse = open_data(source_of(folder, R"({"labels": "coarse"})"), api::DataFormat::cifar100);
  ASSERT_FALSE(coarse.has_value());
  EXPECT_THAT(coarse.error().message, HasSubstr("train.bin: the label of sample 0 is 20, not one of 0 to 19"));
}

TEST(OpenData, WarnsOfACifarThatHasNotThePublishedSize) {
  const fakes::TemporaryFolder folder;
  std::string published;
  for (int number = 0; number < 10'000; ++number) published += cifar_sample({'\1', '\1'}, '\1');
  folder.write("test.bin", published);
  folder.write("train.bin", published.substr(3074));
  const auto log_file = folder.file("log");
  {
    const fakes::Redirection redirection{STDERR_FILENO, log_file, O_WRONLY};
    EXPECT_TRUE(open_data(source_of(folder), api::DataFormat::cifar100).has_value());
  }
  const std::string log = fakes::text_of(log_file);
  EXPECT_THAT(log, HasSubstr("a set in CIFAR's form does not have the published number of samples"));
  EXPECT_THAT(log, AllOf(HasSubstr("set=train"), HasSubstr("samples=9999"), HasSubstr("published=50000")));
  EXPECT_THAT(log, Not(HasSubstr("set=validation")));
}

TEST(OpenData, NamesTheFileOfCifarThatIsMissing) {
  const fakes::TemporaryFolder folder;
  write_cifar10(folder);
  std::filesystem::remove(folder.file("data_batch_3.bin"));
  const auto datasets = open_data(source_of(folder), api::DataFormat::cifar10);
  ASSERT_FALSE(datasets.has_value());
  EXPECT_EQ(datasets.error().kind, ErrorKind::not_found);
  EXPECT_EQ(datasets.error().message,
            "the data path " + folder.path() +
                " does not hold data_batch_3.bin; set training.data.path to the folder with the .bin files of CIFAR's "
                "binary version");
  std::filesystem::create_directory(folder.file("data_batch_3.bin"));
  EXPECT_THAT(open_data(source_of(folder), api::DataFormat::cifar10).error().message,
              HasSubstr("data_batch_3.bin is not a file"));
}

TEST(ReadFile, RefusesWhatIsTooLargeBeforeItReads) {
  const fakes::TemporaryFolder folder;
  const auto path = folder.write("file", "12345");
  EXPECT_EQ(read_file(path, 5)->size(), 5U);
  EXPECT_EQ(read_file(path, 4).error(), (Error{.kind = ErrorKind::invalid,
                                               .message = path.string() + " has 5 bytes; at most 4 are read",
                                               .retry_after = {}}));
  EXPECT_EQ(read_file(folder.file("other"), 4).error().kind, ErrorKind::not_found);
  EXPECT_EQ(read_file(folder.file("file/other"), 4).error().kind, ErrorKind::io) << "a file is no folder";
  EXPECT_THAT(RandomAccessFile::open(folder.file("other"), "look").error().message, HasSubstr("other; look"));
  EXPECT_EQ(RandomAccessFile::open(folder.file("file/other"), "look").error().kind, ErrorKind::io);
  EXPECT_EQ(read_file(folder.path(), 4).error().kind, ErrorKind::invalid) << "a folder";
  // Its opening would wait for a writer.
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_file(folder.file("pipe"), 4).error().message, folder.file("pipe").string() + " is not a file");
  EXPECT_EQ(RandomAccessFile::open(folder.file("pipe"), "look").error().message,
            folder.file("pipe").string() + " is not a file");
}

TEST(OpenData, HasTheSameOptionsForAllImagesInMemory) {
  const fakes::TemporaryFolder folder;
  write_cifar10(folder);
  const std::string cifar_options =
      R"({"randomCropPadding": 4, "horizontalFlip": true, "mean": [0, 0, 0], "std": [0.5, 0.5, 0.5]})";
  DataSource source = source_of(folder, cifar_options);
  const auto cifar = open_data(source, api::DataFormat::cifar10);
  ASSERT_TRUE(cifar.has_value());
  source.options.check_all_asked();
  const torch::Tensor ids = torch::arange(2, 10);
  EXPECT_FALSE(cifar->train->gather_in_epoch(ids, 0).inputs.equal(cifar->train->gather_in_epoch(ids, 1).inputs));
  EXPECT_TRUE(cifar->train->gather_in_epoch(ids, 1).inputs.equal(cifar->train->gather_in_epoch(ids, 1).inputs));
  EXPECT_EQ(cifar->train->gather(ids).inputs.max().item<float>(), 5 / 255.0F / 0.5F);

  source.options = Options{R"({"mean": [0.5], "std": [0.5]})", "training.data.options"};
  source.samples = 12;
  const auto synthetic = open_data(source, api::DataFormat::synthetic);
  ASSERT_TRUE(synthetic.has_value());
  EXPECT_EQ(synthetic->validation->size(), 2);
  EXPECT_LT(synthetic->validation->gather(torch::arange(2)).inputs.min().item<float>(), 0);
  source.samples = 5;
  EXPECT_EQ(open_data(source, api::DataFormat::synthetic)->validation->size(), 1) << "a sixth, but never none";
}

TEST(OpenData, MakesSyntheticSamplesAsTheOptionsSay) {
  const fakes::TemporaryFolder folder;
  DataSource source = source_of(folder, R"({"channels": 3, "size": 8, "classes": 5})");
  source.samples = 12;
  const auto images = open_data(source, api::DataFormat::synthetic);
  ASSERT_TRUE(images.has_value());
  source.options.check_all_asked();
  EXPECT_EQ(images->train->gather(torch::arange(4)).inputs.sizes(), (std::vector<std::int64_t>{4, 3, 8, 8}));

  source.options = Options{R"({"sequenceLength": 6, "vocabulary": 50})", "training.data.options"};
  const auto tokens = open_data(source, api::DataFormat::synthetic);
  ASSERT_TRUE(tokens.has_value());
  source.options.check_all_asked();
  EXPECT_EQ(tokens->train->size(), 12);
  EXPECT_EQ(tokens->validation->size(), 2);
  EXPECT_EQ(tokens->train->gather(torch::arange(4)).inputs.sizes(), (std::vector<std::int64_t>{4, 6}));
}

TEST(OpenData, LeavesAnUnknownOptionToBeNamed) {
  const fakes::TemporaryFolder folder;
  write_cifar10(folder);
  const DataSource source = source_of(folder, R"({"horizontalflip": true})");
  ASSERT_TRUE(open_data(source, api::DataFormat::cifar10).has_value());
  try {
    source.options.check_all_asked("the format cifar10");
    FAIL();
  } catch (const InvalidJob& error) {
    EXPECT_STREQ(error.what(),
                 "training.data.options.horizontalflip: the format cifar10 has no such option; did you mean "
                 "horizontalFlip?");
  }
}

}  // namespace
}  // namespace trainyard::data
