#include "checkpoint/interchange/tensor_file.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cstring>
#include <filesystem>
#include <numeric>

#include "checkpoint/format/safetensors.hpp"
#include "checkpoint/interchange/export.hpp"
#include "checkpoint/interchange/safetensors_file.hpp"
#include "checkpoint/interchange/zip_writer.hpp"
#include "tests/checkpoint/interchange/memory_sink.hpp"
#include "tests/checkpoint/interchange/test_pickle.hpp"
#include "tests/checkpoint/interchange/test_prefix.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::HasSubstr;

constexpr std::string_view six_floats_record = "abcdefghijklmnopqrstuvwx";

// An archive as torch.save writes it, of a pickle (without its beginning and end) and of one storage.
std::string torch_archive(const std::string& pickle, std::string_view storage = six_floats_record,
                          std::string_view byte_order = "little") {
  MemorySink sink;
  ZipWriter zip{sink};
  EXPECT_TRUE(zip.add("model/data.pkl", pickled::begin + pickle + "."));
  EXPECT_TRUE(zip.add("model/byteorder", byte_order));
  EXPECT_TRUE(zip.add("model/data/0", storage));
  EXPECT_TRUE(zip.add("model/version", "3\n"));
  EXPECT_TRUE(zip.finish());
  return sink.content;
}

std::string one_view(const pickled::View& view) {
  return torch_archive(pickled::dict(pickled::text("w") + pickled::tensor(view)));
}

// The only tensor's bytes, or the error.
std::string bytes_in(std::string archive) {
  TensorBuffers buffers;
  const auto tensors = read_torch(std::as_writable_bytes(std::span{archive}), buffers);
  if (!tensors) return tensors.error().message;
  EXPECT_EQ(tensors->size(), 1U);
  const auto bytes = tensors->front().bytes;
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class ATensorFile : public MemoryPrefix {
 protected:
  const Manifest manifest = prefix.claim(1).save({.step = 20, .generation = 1}, 2);
  const fakes::TemporaryFolder folder;

  std::string exported(bool is_safetensors) {
    const auto plan = plan_export(manifest, {});
    DataStream data{prefix.store(), manifest};
    MemorySink sink;
    EXPECT_TRUE(is_safetensors ? write_safetensors(data, manifest, *plan, sink) : write_torch(data, *plan, sink));
    return sink.content;
  }
  static void expect_the_model(const std::vector<ForeignTensor>& tensors) {
    const TestState expected = state_after(20);
    ASSERT_EQ(tensors.size(), 5U);
    for (const ForeignTensor& tensor : tensors) {
      const auto found = std::find_if(expected.entries().begin(), expected.entries().end(),
                                      [&](const auto& entry) { return entry.info.name == "model." + tensor.name; });
      ASSERT_NE(found, expected.entries().end()) << tensor.name;
      EXPECT_EQ(found->info.dtype, tensor.dtype.name);
      EXPECT_EQ(found->info.shape, tensor.shape);
      ASSERT_EQ(found->bytes.size(), tensor.bytes.size());
      EXPECT_TRUE(std::equal(tensor.bytes.begin(), tensor.bytes.end(), found->bytes.begin())) << tensor.name;
    }
  }
};

TEST_F(ATensorFile, HoldsWhatWasExported) {
  for (const bool is_safetensors : {true, false}) {
    const auto path = folder.write(is_safetensors ? "m.safetensors" : "m.pt", exported(is_safetensors)).string();
    const auto file = TensorFile::open(path);
    ASSERT_TRUE(file) << file.error().message;
    expect_the_model(file->tensors());
    // As Hugging Face's cache keeps its files.
    const std::string link = folder.file(is_safetensors ? "link.safetensors" : "link.pt").string();
    std::filesystem::create_symlink(path, link);
    const auto linked = TensorFile::open(link);
    ASSERT_TRUE(linked) << linked.error().message;
    expect_the_model(linked->tensors());
  }
}

TEST_F(ATensorFile, ThatIsCutOffAnywhereIsRefused) {
  const std::string safetensors = exported(true);
  const std::string torch = exported(false);
  for (std::size_t part = 0; part < 200; ++part) {
    std::string cut = safetensors.substr(0, safetensors.size() * part / 200);
    EXPECT_FALSE(read_safetensors(std::as_writable_bytes(std::span{cut}))) << part;
    TensorBuffers buffers;
    cut = torch.substr(0, torch.size() * part / 200);
    EXPECT_FALSE(read_torch(std::as_writable_bytes(std::span{cut}), buffers)) << part;
  }
}

TEST(ParseSafetensorsHeader, TakesTensorsAndLeavesOutTheRest) {
  const auto entries = parse_safetensors_header(
      R"({"__metadata__": {"shape": [[1]], "a": {"dtype": 5}}, "b": {"data_offsets": [8, 12], "shape": [1], "dtype": "F32"},
          "a": {"dtype": "F32", "more": {"shape": [[{"dtype": 1}]]}, "shape": [2, 1], "data_offsets": [0, 8]}, "e": {"dtype": "I8", "shape": [0], "data_offsets": [12, 12]}})");
  ASSERT_TRUE(entries) << entries.error().message;
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : *entries) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "e"}));
  EXPECT_EQ(entries->front().shape, (std::vector<std::int64_t>{2, 1}));
}

TEST(ParseSafetensorsHeader, PutsAnEmptyTensorBeforeTheOneThatBeginsAtItsByte) {
  const auto entries = parse_safetensors_header(
      R"({"full": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
          "empty": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}})");
  ASSERT_TRUE(entries) << entries.error().message;
  EXPECT_EQ(entries->at(0).name, "empty");
  EXPECT_EQ(entries->at(1).name, "full");
}

TEST(ParseSafetensorsHeader, RefusesAHeaderThatIsInvalidOrWouldTakeMuchMoreMemory) {
  const auto tensor = [](const std::string& fields) { return "{\"a\": {" + fields + "}}"; };
  const std::string rest = R"("dtype": "I8", "data_offsets": [0, 1])";
  std::string many_dimensions = "1";
  for (int i = 0; i < 64; ++i) many_dimensions += ", 1";
  const std::pair<std::string, std::string> rows[] = {
      {"[]", "its header is no JSON object"},
      {"7", "its header is no JSON object"},
      {"{\"a\": 7}", "its header describes no valid tensor for a"},
      {"{\"a\": [1]}", "its header describes no valid tensor for a"},
      {tensor(rest), "its header describes no valid tensor for a"},
      {tensor(rest + R"(, "shape": 1)"), "its header describes no valid tensor for a"},
      {tensor(rest + R"(, "shape": [[1]])"), "its header describes no valid tensor for a"},
      {tensor(rest + R"(, "shape": {"x": 1})"), "its header describes no valid tensor for a"},
      {tensor(rest + R"(, "shape": [-1])"), "its header describes no valid tensor for a"},
      {tensor(rest + R"(, "shape": [1.0])"), "its header describes no valid tensor for a"},
      {tensor(rest + R"(, "shape": [9223372036854775808])"), "its header describes no valid tensor for a"},
      {tensor(rest + ", \"shape\": [" + many_dimensions + "]"), "its header describes no valid tensor for a"},
      {tensor(R"("dtype": 1, "data_offsets": [0, 1], "shape": [1])"), "its header describes no valid tensor for a"},
      {tensor(R"("dtype": "X9", "data_offsets": [0, 1], "shape": [1])"), "a is of type X9, which is not known here"},
      {tensor(R"("dtype": "I8", "data_offsets": [1, 0], "shape": [1])"), "its header describes no valid tensor for a"},
      {tensor(R"("dtype": "I8", "data_offsets": [0], "shape": [1])"), "its header describes no valid tensor for a"},
      {R"({"a": {"dtype": "I8", "data_offsets": [0, 0], "shape": [0]}, "a": {"dtype": "I8", "data_offsets": [0, 0], "shape": [0]}})",
       "it names a twice"},
      {"{\"" + std::string(1000, 'n') + "\": 7}",
       "its header describes no valid tensor for " + std::string(197, 'n') + "..."},
      {R"({"a": {"dtype": "I8")", "its header is no JSON object"},
  };
  for (const auto& [header, message] : rows) {
    const auto entries = parse_safetensors_header(header);
    ASSERT_FALSE(entries) << header;
    EXPECT_THAT(entries.error().message, HasSubstr(message)) << header;
  }
}

// A tree of it would take gigabytes.
TEST(ParseSafetensorsHeader, NeedsNoMemoryForWhatItLeavesOut) {
  struct rusage before {};
  ::getrusage(RUSAGE_SELF, &before);
  constexpr std::size_t depth = 5'000'000;
  std::string header = R"({"__metadata__": )";
  header.append(depth, '[').append(depth, ']').append("}");
  const auto entries = parse_safetensors_header(header);
  ASSERT_TRUE(entries) << entries.error().message;
  struct rusage after {};
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT((after.ru_maxrss - before.ru_maxrss) * 1024, 10 * static_cast<std::int64_t>(header.size()));
}

TEST(ParseSafetensorsHeader, RefusesMoreThanAMillionTensors) {
  std::string header = "{";
  for (int i = 0; i <= 1'000'000; ++i)
    header += fmt::format(R"({}"{}":{{"dtype":"I8","shape":[0],"data_offsets":[0,0]}})", i == 0 ? "" : ",", i);
  const auto entries = parse_safetensors_header(header + "}");
  ASSERT_FALSE(entries);
  EXPECT_EQ(entries.error().kind, ErrorKind::invalid);
  EXPECT_EQ(entries.error().message, "it has more than 1000000 tensors: split it");
}

TEST_F(ATensorFile, NamesAFileThatCannotBeOpened) {
  EXPECT_THAT(TensorFile::open(folder.path() + "/no.pt").error().message, HasSubstr("/no.pt: No such file"));
  EXPECT_THAT(TensorFile::open(folder.path()).error().message, HasSubstr("is no file"));
  EXPECT_THAT(TensorFile::open(folder.write("empty.pt", "").string()).error().message, HasSubstr("empty.pt is empty"));
  EXPECT_THAT(TensorFile::open(folder.write("no.pt", torch_archive("}")).string()).error().message,
              HasSubstr("no.pt: it holds no tensor"));
  EXPECT_TRUE(TensorFile::is_known("a.pth"));
  EXPECT_FALSE(TensorFile::is_known("a.onnx"));
}

TEST(ReadTorch, PutsTheElementsOfAViewInOrder) {
  struct Row {
    pickled::View view;
    std::string bytes;  // Floats: each is four letters of the record.
  };
  const std::vector<Row> rows = {
      {{}, std::string{six_floats_record}},
      {{.offset = 2, .shape = {3}, .strides = {1}}, "ijklmnopqrst"},
      {{.shape = {3, 2}, .strides = {1, 3}}, "abcdmnopefghqrstijkluvwx"},
      {{.offset = 1, .shape = {2}, .strides = {3}}, "efghqrst"},
      {{.shape = {2, 2}, .strides = {0, 1}}, "abcdefghabcdefgh"},
      {{.offset = 5, .shape = {}, .strides = {}}, "uvwx"},
      {{.shape = {1, 6}, .strides = {77, 1}}, std::string{six_floats_record}},
      {{.offset = 6, .shape = {0, 3}, .strides = {3, 1}}, ""},
  };
  for (const Row& row : rows) EXPECT_EQ(bytes_in(one_view(row.view)), row.bytes);
}

TEST(ReadTorch, SharesAStorageThatSeveralTensorsView) {
  using namespace pickled;
  std::string archive = torch_archive(dict(text("a") + tensor({}) + text("b") + tensor({})));
  TensorBuffers buffers;
  const auto tensors = read_torch(std::as_writable_bytes(std::span{archive}), buffers);
  ASSERT_TRUE(tensors) << tensors.error().message;
  EXPECT_EQ((*tensors)[0].bytes.data(), (*tensors)[1].bytes.data());
}

TEST(ReadTorch, RefusesPartsThatDoNotFitTogether) {
  using namespace pickled;
  const std::string dict_of_one = dict(text("w") + tensor({}));
  EXPECT_THAT(bytes_in(torch_archive(dict_of_one, "short")), HasSubstr("the storage of w is of 5 bytes"));
  EXPECT_THAT(bytes_in(torch_archive(dict_of_one, six_floats_record, "big")), HasSubstr("big-endian"));
  EXPECT_THAT(bytes_in(torch_archive(dict(text("w") + tensor({.record = "1"})))), HasSubstr("model/data/1 is missing"));
  EXPECT_THAT(bytes_in(one_view({.record = "../version", .storage_count = 0, .shape = {0}, .strides = {1}})),
              HasSubstr("model/data/../version is missing"));
  std::string flipped = torch_archive(dict_of_one);
  flipped[flipped.find(six_floats_record)] = 'A';
  EXPECT_THAT(bytes_in(flipped), HasSubstr("w: it is damaged: a checksum"));
}

TEST(ReadTorch, TakesAnArchiveOfAnOlderTorchThatNamesNoByteOrder) {
  MemorySink sink;
  ZipWriter zip{sink};
  ASSERT_TRUE(zip.add("m/data.pkl", pickled::begin + pickled::dict(pickled::text("w") + pickled::tensor({})) + "."));
  ASSERT_TRUE(zip.add("m/data/0", six_floats_record));
  ASSERT_TRUE(zip.add("m/.data/data.pkl", "not the one"));
  ASSERT_TRUE(zip.finish());
  EXPECT_EQ(bytes_in(sink.content), six_floats_record);
  EXPECT_THAT(bytes_in(torch_archive(pickled::dict(""), six_floats_record, "middle")), HasSubstr("big-endian"));
}

TEST(ReadTorch, RefusesAnArchiveWithSeveralPickles) {
  MemorySink sink;
  ZipWriter zip{sink};
  ASSERT_TRUE(zip.add("a/data.pkl", "x"));
  ASSERT_TRUE(zip.add("b/data.pkl", "x"));
  ASSERT_TRUE(zip.finish());
  EXPECT_THAT(bytes_in(sink.content), HasSubstr("holds several data.pkl"));
}

TEST(ReadTorch, RefusesPackedRecordsThatAreManyTimesTheirFile) {
  std::string archive = torch_archive(pickled::dict(pickled::text("w") + pickled::tensor({})));
  const std::size_t in_directory = archive.rfind("PK\x01\x02", archive.rfind("model/data/0"));
  const std::size_t local = archive.rfind("PK\x03\x04", archive.find("model/data/0"));
  archive.replace(local + 8, 2, little_endian(8, 2));
  archive.replace(in_directory + 10, 2, little_endian(8, 2));
  archive.replace(in_directory + 24, 4, little_endian(100 << 20, 4));
  EXPECT_THAT(bytes_in(archive), HasSubstr("would be of more than"));
}

TEST(ReadTorch, RefusesArchivesOfOthers) {
  MemorySink sink;
  ZipWriter zip{sink};
  ASSERT_TRUE(zip.add("word/document.xml", "text"));
  ASSERT_TRUE(zip.finish());
  EXPECT_THAT(bytes_in(sink.content), HasSubstr("holds no data.pkl"));

  MemorySink script_sink;
  ZipWriter script{script_sink};
  ASSERT_TRUE(script.add("m/data.pkl", "x"));
  ASSERT_TRUE(script.add("m/constants.pkl", "x"));
  ASSERT_TRUE(script.finish());
  EXPECT_THAT(bytes_in(script_sink.content), HasSubstr("TorchScript"));
}

TEST(ReadTorch, RefusesTensorsThatAreManyTimesTheirFile) {
  EXPECT_THAT(bytes_in(one_view({.shape = {1'000'000, 1'000}, .strides = {0, 0}})), HasSubstr("would be of more than"));
  using namespace pickled;
  std::string items;
  for (int i = 0; i < 20; ++i) items += text(std::to_string(i)) + tensor({.shape = {1'000'000}, .strides = {0}});
  EXPECT_THAT(bytes_in(torch_archive(dict(items))), HasSubstr("would be of more than"));
}

struct WrongHeader {
  std::string_view name;
  std::string_view header;
  std::string_view says;
};

class ReadSafetensorsRefuses : public testing::TestWithParam<WrongHeader> {};

TEST_P(ReadSafetensorsRefuses, AndSaysWhat) {
  const std::string header{GetParam().header};
  std::string file = little_endian(header.size(), 8) + header + std::string(24, 'x');
  const auto read = read_safetensors(std::as_writable_bytes(std::span{file}));
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr(std::string{GetParam().says}));
}

INSTANTIATE_TEST_SUITE_P(
    Table, ReadSafetensorsRefuses,
    testing::Values(
        WrongHeader{"no_json", "{{", "no JSON object"}, WrongHeader{"no_object", "[1]", "no JSON object"},
        WrongHeader{"an_unknown_type", R"({"a": {"dtype": "F4", "shape": [6], "data_offsets": [0, 24]}})",
                    "a is of type F4, which is not known"},
        WrongHeader{"no_type", R"({"a": {"shape": [6], "data_offsets": [0, 24]}})", "describes no valid tensor for a"},
        WrongHeader{"another_size", R"({"a": {"dtype": "F32", "shape": [5], "data_offsets": [0, 24]}})",
                    "describes no valid tensor for a"},
        WrongHeader{"a_negative_extent", R"({"a": {"dtype": "F32", "shape": [-6], "data_offsets": [0, 24]}})",
                    "describes no valid tensor for a"},
        WrongHeader{"a_fraction", R"({"a": {"dtype": "F32", "shape": [6.0], "data_offsets": [0, 24]}})",
                    "describes no valid tensor for a"},
        WrongHeader{"absurd_extents",
                    R"({"a": {"dtype": "F32", "shape": [4294967296, 4294967296, 6], "data_offsets": [0, 24]}})",
                    "describes no valid tensor for a"},
        WrongHeader{"offsets_turned_round", R"({"a": {"dtype": "F32", "shape": [6], "data_offsets": [24, 0]}})",
                    "describes no valid tensor for a"},
        WrongHeader{"three_offsets", R"({"a": {"dtype": "F32", "shape": [6], "data_offsets": [0, 24, 24]}})",
                    "describes no valid tensor for a"},
        WrongHeader{"a_gap", R"({"a": {"dtype": "F32", "shape": [5], "data_offsets": [4, 24]}})",
                    "a does not begin where the tensor before it ends"},
        WrongHeader{"two_over_each_other",
                    R"({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
                        "b": {"dtype": "F32", "shape": [3], "data_offsets": [12, 24]}})",
                    "b does not begin where the tensor before it ends"},
        WrongHeader{"more_than_there_is", R"({"a": {"dtype": "F32", "shape": [7], "data_offsets": [0, 28]}})",
                    "cut off"},
        WrongHeader{"less_than_there_is", R"({"a": {"dtype": "F32", "shape": [5], "data_offsets": [0, 20]}})",
                    "something follows it"}),
    [](const auto& info) { return std::string{info.param.name}; });

TEST(ReadSafetensorsLength, TakesTheLengthsThatTheFormatAllows) {
  for (const std::uint64_t length : {std::uint64_t{2}, std::uint64_t{100'000'000}})
    EXPECT_EQ(read_safetensors_length(little_endian(length, 8)), length);
  for (const std::uint64_t length : {std::uint64_t{1}, std::uint64_t{100'000'001}})
    EXPECT_EQ(read_safetensors_length(little_endian(length, 8)).error().kind, ErrorKind::corrupt) << length;
  EXPECT_EQ(read_safetensors_length(std::string(7, '\x02')).error().kind, ErrorKind::corrupt);
}

TEST(FindDtype, KnowsEachTypeByItsNameInEachFormat) {
  struct Row {
    std::string_view name;
    std::uint64_t element_bytes;
    std::string_view safetensors;
    std::string_view torch;
    std::string_view storage;
  };
  const Row rows[] = {
      {"F64", 8, "F64", "float64", "DoubleStorage"},
      {"F32", 4, "F32", "float32", "FloatStorage"},
      {"F16", 2, "F16", "float16", "HalfStorage"},
      {"BF16", 2, "BF16", "bfloat16", "BFloat16Storage"},
      {"F8_E5M2", 1, "F8_E5M2", "float8_e5m2", ""},
      {"F8_E4M3", 1, "F8_E4M3", "float8_e4m3fn", ""},
      {"I64", 8, "I64", "int64", "LongStorage"},
      {"I32", 4, "I32", "int32", "IntStorage"},
      {"I16", 2, "I16", "int16", "ShortStorage"},
      {"I8", 1, "I8", "int8", "CharStorage"},
      {"U64", 8, "U64", "uint64", ""},
      {"U32", 4, "U32", "uint32", ""},
      {"U16", 2, "U16", "uint16", ""},
      {"U8", 1, "U8", "uint8", "ByteStorage"},
      {"BOOL", 1, "BOOL", "bool", "BoolStorage"},
      {"ComplexHalf", 4, "", "complex32", ""},
      {"ComplexFloat", 8, "C64", "complex64", "ComplexFloatStorage"},
      {"ComplexDouble", 16, "", "complex128", "ComplexDoubleStorage"},
      {"Float8_e5m2fnuz", 1, "F8_E5M2FNUZ", "float8_e5m2fnuz", ""},
      {"Float8_e4m3fnuz", 1, "F8_E4M3FNUZ", "float8_e4m3fnuz", ""},
      {"Float8_e8m0fnu", 1, "F8_E8M0", "float8_e8m0fnu", ""},
  };
  for (const Row& row : rows) {
    const auto dtype = find_dtype(row.name);
    ASSERT_TRUE(dtype) << row.name;
    EXPECT_EQ(dtype->element_bytes, row.element_bytes) << row.name;
    EXPECT_EQ(dtype->safetensors, row.safetensors) << row.name;
    EXPECT_EQ(dtype->torch, row.torch) << row.name;
    EXPECT_EQ(dtype->storage, row.storage) << row.name;
    EXPECT_EQ(find_torch_dtype(row.torch)->name, row.name);
    if (!row.safetensors.empty()) {
      EXPECT_EQ(find_safetensors_dtype(row.safetensors)->name, row.name);
    }
    if (!row.storage.empty()) {
      EXPECT_EQ(find_storage_dtype(row.storage)->name, row.name);
    }
  }
  EXPECT_FALSE(find_safetensors_dtype("") || find_storage_dtype("") || find_torch_dtype("") || find_dtype(""));
}

TEST(ElementCount, IsNoneOfANegativeExtentOrOneThatOverflows) {
  constexpr std::int64_t large = std::int64_t{1} << 32;
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(element_count(Shape{}), 1U);
  EXPECT_EQ(element_count(Shape{2, 0, 3}), 0U);
  EXPECT_EQ(element_count(Shape{-1}), std::nullopt);
  EXPECT_EQ(element_count(Shape{large, large}), std::nullopt);
  EXPECT_EQ(byte_count(Shape{large, large / 4}, 2), std::uint64_t{1} << 63);
  EXPECT_EQ(byte_count(Shape{large, large / 4}, 4), std::nullopt);
}

TEST(ReadSafetensors, RefusesAHeaderOfAnAbsurdLength) {
  for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{200'000'000}, UINT64_MAX}) {
    std::string file = little_endian(length, 8) + "{}";
    EXPECT_FALSE(read_safetensors(std::as_writable_bytes(std::span{file}))) << length;
  }
  std::string empty = little_endian(2, 8) + "{}";
  const auto read = read_safetensors(std::as_writable_bytes(std::span{empty}));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(read->empty());
}

}  // namespace
}  // namespace trainyard::checkpoint
