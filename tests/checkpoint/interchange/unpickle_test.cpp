#include "checkpoint/interchange/pickle.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/interchange/test_pickle.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names_of(const Result<std::vector<UnpickledTensor>>& tensors) {
  std::vector<std::string> names;
  if (!tensors) return {tensors.error().message};
  for (const UnpickledTensor& tensor : *tensors) names.push_back(tensor.name);
  return names;
}

TEST(UnpickleTensors, ReadsWhatOurOwnExportWrites) {
  const std::vector<std::int64_t> shape = {2, 3};
  const std::vector<PickledTensor> written = {
      {.name = "a", .dtype = *find_dtype("F32"), .shape = shape, .bytes = 24, .record = 0},
      {.name = "b", .dtype = *find_dtype("F8_E4M3"), .shape = shape, .bytes = 6, .record = 1},
      {.name = "huge", .dtype = *find_dtype("U8"), .shape = {}, .bytes = 1, .record = 2}};
  const auto read = unpickle_tensors(pickle_tensors(written));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), 3U);
  EXPECT_EQ((*read)[0].name, "a");
  EXPECT_EQ((*read)[0].dtype.torch, "float32");
  EXPECT_EQ((*read)[0].storage_bytes, 24U);
  EXPECT_THAT((*read)[0].strides, ElementsAre(3, 1));
  EXPECT_EQ((*read)[1].dtype.torch, "float8_e4m3fn");
  EXPECT_EQ((*read)[1].record, "1");
  EXPECT_TRUE((*read)[2].shape.empty());
}

TEST(UnpickleTensors, ReadsNestedDictsParametersAndViews) {
  using namespace pickled;
  const std::string state = ordered_dict(text("w") + parameter({.offset = 1, .shape = {2}, .strides = {2}}) +
                                         text("inner") + dict(text("x") + tensor({}) + text("y") + tensor({})));
  // state_dict() has attributes, which are set behind the items.
  const std::string attributes = dict(text("_metadata") + ordered_dict(text("") + dict(text("version") + number(1))));
  const auto read = unpickle_tensors(begin + dict(text("model") + state + attributes + "b") + ".");
  EXPECT_THAT(names_of(read), ElementsAre("model.w", "model.inner.x", "model.inner.y"));
  EXPECT_EQ((*read)[0].offset, 1U);
  EXPECT_THAT((*read)[0].strides, ElementsAre(2));
}

TEST(UnpickleTensors, ReadsTheInstructionsOfEveryProtocolThatHasStorages) {
  using namespace pickled;
  // BINPUT and BINGET; MEMOIZE, SHORT_BINUNICODE, STACK_GLOBAL and FRAME; single items and short tuples.
  const std::string sized =
      std::string("\x80\x04\x95") + std::string(8, '\0') + "}" + "\x94" + "\x8c\x01" + "a" +
      "\x8c\x0ctorch._utils\x8c\x12_rebuild_tensor_v2\x93" +
      tuple(tuple(text("storage") + global("torch", "LongStorage") + text("7") + text("cpu") + "K\x04") + "Q" + "K" +
            std::string(1, '\0') + "K\x02K\x02\x86" + "K\x02K\x01\x86" + "\x89" + global("collections", "OrderedDict") +
            ")R") +
      "R" + "q\x05" + "s" + text("b") + "h\x05" + "s" + ".";
  const auto read = unpickle_tensors(sized);
  EXPECT_THAT(names_of(read), ElementsAre("a", "b"));
  EXPECT_EQ((*read)[1].record, "7");
  EXPECT_EQ((*read)[1].storage_bytes, 32U);
}

TEST(UnpickleTensors, PassesOverAttributesOfEveryKind) {
  using namespace pickled;
  const std::string zero(1, '\0');
  const std::string number_256 = zero + "\x01" + zero + zero;
  const std::string constants = "N\x88\x89G" + std::string(8, '\0') + "M\x01\x02";
  const std::string longs =
      "\x8a" + zero + "\x8a\x08" + std::string(8, '\xff') + "\x8a\x09" + std::string(8, '\x01') + zero;
  const std::string list = "](NNeNar" + number_256 + "j" + number_256;
  const std::string attributes =
      tuple(constants + longs + "\x8d\x01" + std::string(7, '\0') + "x" + list + "N\x85NNN\x87");
  const auto read = unpickle_tensors(begin + ordered_dict(text("w") + tensor({})) + attributes + "b.");
  EXPECT_THAT(names_of(read), ElementsAre("w"));
}

TEST(UnpickleTensors, ReadsNumbersInEveryForm) {
  using namespace pickled;
  const auto offset_as = [](const std::string& number_of_one) {
    const std::string size = tuple(number_of_one);
    return begin +
           dict(
               text("w") + global("torch._utils", "_rebuild_tensor_v2") +
               tuple(storage({}) + number_of_one + size + size + "\x89" + global("collections", "OrderedDict") + ")R") +
               "R") +
           ".";
  };
  const std::string zero(1, '\0');
  for (const std::string& one : {std::string{"K\x01"}, "M\x01" + zero, number(1), std::string{"\x8a\x01\x01"},
                                 "\x8a\x08\x01" + std::string(7, '\0'), "\x8a\x0a\x01" + std::string(9, '\0')}) {
    const auto read = unpickle_tensors(offset_as(one));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->front().offset, 1U);
    EXPECT_THAT(read->front().shape, ElementsAre(1));
  }
  for (const std::string& negative : {number(-1), std::string{"\x8a\x01\xff"}, "\x8a\x09" + std::string(9, '\xff')}) {
    const auto refused = unpickle_tensors(offset_as(negative));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::corrupt) << refused.error().message;
  }
}

TEST(UnpickleTensors, KeepsToItsLimitsAndNoLess) {
  using namespace pickled;
  const std::string longest(1024, 'n');
  EXPECT_THAT(names_of(unpickle_tensors(begin + dict(text(longest) + tensor({})) + ".")), ElementsAre(longest));
  const auto nested = [](int dicts) {
    std::string inner = tensor({});
    for (int i = 0; i < dicts; ++i) inner = dict(text("x") + inner);
    return unpickle_tensors(begin + inner + ".");
  };
  EXPECT_TRUE(nested(32));
  EXPECT_FALSE(nested(33));
  const std::vector<std::int64_t> ones(64, 1);
  EXPECT_TRUE(unpickle_tensors(begin + dict(text("w") + tensor({.shape = ones, .strides = ones})) + "."));
  EXPECT_TRUE(unpickle_tensors(begin + dict(text("w") + tensor({.record = std::string(64, '0')})) + "."));
}

struct WrongPickle {
  std::string_view name;
  std::string pickle;  // Without its beginning and end.
  ErrorKind kind;
  std::string_view says;
};

class UnpickleTensorsRefuses : public testing::TestWithParam<WrongPickle> {};

TEST_P(UnpickleTensorsRefuses, AndSaysWhat) {
  const auto read = unpickle_tensors(pickled::begin + GetParam().pickle + ".");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, GetParam().kind) << read.error().message;
  EXPECT_THAT(read.error().message, HasSubstr(std::string{GetParam().says}));
}

std::string named(const std::string& tensor) {
  return pickled::dict(pickled::text("w") + tensor);
}

std::vector<WrongPickle> wrong_pickles() {
  using namespace pickled;
  constexpr auto invalid = ErrorKind::invalid;
  constexpr auto corrupt = ErrorKind::corrupt;
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "}" + text("x");
  deep += "}" + std::string(100'000, 's');
  std::string wide = "}q\x01";  // Each dict holds the one before ten times: 10^20 dicts.
  for (char level = 1; level <= 20; ++level) {
    wide += "}(";
    for (char key = 'a'; key < 'a' + 10; ++key) wide += text(std::string(1, key)) + "h" + std::string(1, level);
    wide += "uq" + std::string(1, static_cast<char>(level + 1));
  }
  return {
      {"a_function", named(global("os", "system") + tuple(text("true")) + "R"), invalid, "would have os.system built"},
      {"a_function_by_texts", named(text("posix") + text("system") + "\x93"), invalid, "would have posix.system built"},
      {"a_whole_model", global("__main__", "Net") + ")\x81", invalid, "__main__.Net built or called"},
      {"eval", named(global("builtins", "eval") + tuple(text("1")) + "R"), invalid, "builtins.eval"},
      {"a_dtype_that_is_none", named(global("torch", "load")), invalid, "torch.load"},
      {"a_sparse_tensor", named(global("torch._utils", "_rebuild_sparse_tensor")), invalid, "_rebuild_sparse_tensor"},
      {"a_quantized_tensor", named(global("torch._utils", "_rebuild_qtensor")), invalid, "_rebuild_qtensor"},
      {"an_instruction", named("I5\n"), invalid, "the instruction 0x49 at byte"},
      {"an_extension", named("\x82\x01"), invalid, "the instruction 0x82"},
      {"a_new_object", global("collections", "OrderedDict") + ")\x81", invalid, "the instruction 0x81"},
      {"a_newer_protocol", "\x80\x06}", invalid, "protocol 6"},
      {"a_tensor_alone", tensor({}), invalid, "it holds a tensor, not a dict"},
      {"a_list", "]", invalid, "it holds a list, not a dict"},
      {"a_number_among_tensors", dict(text("epoch") + number(3)), invalid, "epoch is a number"},
      {"a_list_among_tensors", dict(text("groups") + "]"), invalid, "groups is a list"},
      {"a_text_among_tensors", dict(text("name") + text("x")), invalid, "name is a text"},
      {"a_number_as_a_name", dict(number(3) + tensor({})), invalid, "a key that is a number"},
      {"an_empty_name", dict(text("") + tensor({})), invalid, "name is empty"},
      {"a_name_that_is_no_text", dict(text("\xff\xfe") + tensor({})), invalid, "no text"},
      {"a_name_that_is_far_too_long", dict(text(std::string(2000, 'x')) + tensor({})), invalid, "more than 1024 bytes"},
      {"two_of_one_name", dict(text("a.b") + tensor({}) + text("a") + dict(text("b") + tensor({}))), invalid,
       "two tensors are named a.b"},
      {"a_dict_made_of_a_list", global("collections", "OrderedDict") + tuple("]") + "R", invalid,
       "OrderedDict made of"},
      {"a_conjugate_view", named(tensor({}, dict(text("conj") + "\x88"))), invalid, "w is conjugated"},
      {"too_many_arguments", named(tensor({}, "NN")), corrupt, "it describes no valid tensor for w"},
      {"a_type_without_storages", named(tensor({.storage_class = "UntypedStorage"})), corrupt, "no valid tensor for w"},
      {"beyond_the_storage", named(tensor({.offset = 1})), corrupt, "w reaches beyond the 24 bytes"},
      {"strides_beyond_the_storage", named(tensor({.strides = {4, 1}})), corrupt, "w reaches beyond"},
      {"an_absurd_shape", named(tensor({.shape = {0x7fffffff, 0x7fffffff, 0x7fffffff}, .strides = {0, 0, 0}})), corrupt,
       "w reaches beyond"},
      {"a_negative_stride", named(tensor({.strides = {-3, 1}})), corrupt, "no valid tensor for w"},
      {"a_negative_offset", named(tensor({.offset = -1})), corrupt, "no valid tensor for w"},
      {"too_many_dimensions",
       named(tensor({.shape = std::vector<std::int64_t>(65, 1), .strides = std::vector<std::int64_t>(65, 1)})), corrupt,
       "no valid tensor for w"},
      {"a_storage_of_a_long_name", named(tensor({.record = std::string(65, '0')})), corrupt, "no valid tensor for w"},
      {"strides_of_another_tensor", named(tensor({.strides = {1}})), corrupt, "w reaches beyond"},
      {"nesting", deep, invalid, "more than 32 deep"},
      {"a_circle", "}q\x01" + text("x") + "h\x01s", invalid, "more than 32 deep"},
      {"very_many_dicts", wide, invalid, "more than 100000 dicts"},
      {"an_item_without_a_dict", text("x") + text("y") + text("z") + "s", corrupt, "an object that cannot hold them"},
      {"a_key_without_a_value", "}(" + text("x") + "u", corrupt, "a key has no value"},
      {"an_empty_stack", "", corrupt, "takes an object that does not exist"},
      {"a_mark_that_is_not_there", "}u", corrupt, "takes an object that does not exist"},
      {"what_lies_below_a_mark", text("x") + "(\x85", corrupt, "takes an object that does not exist"},
      {"a_memory_of_nothing", "h\x09", corrupt, "loads an object that was never stored"},
      {"more_memories_than_objects", "}\x94\x94", corrupt, "stores more objects than there are"},
      {"an_empty_memory", "q\x01", corrupt, "stores an object that does not exist"},
      {"a_call_of_a_text", text("x") + ")R", corrupt, "calls an object that cannot be called"},
      {"attributes_of_a_text", text("x") + "}b", corrupt, "attributes of an object that has none"},
      {"attributes_of_a_parameter", named(parameter({}) + "}b"), corrupt, "no valid tensor for w"},
      {"items_of_a_parameter", named(parameter({}) + text("x") + "Ns"), corrupt, "no valid tensor for w"},
      {"items_of_a_tensor", named(tensor({}) + text("x") + "Ns"), corrupt, "no valid tensor for w"},
      {"a_parameter_of_two_arguments",
       named(global("torch._utils", "_rebuild_parameter") + tuple(tensor({}) + "\x88") + "R"), corrupt,
       "no valid tensor for w"},
      {"a_parameter_of_a_number",
       named(global("torch._utils", "_rebuild_parameter") + tuple(number(1) + "\x88N") + "R"), invalid,
       "w is a number"},
      {"a_negative_extent", named(tensor({.shape = {-2, 3}})), corrupt, "no valid tensor for w"},
      {"a_storage_of_negative_size", named(tensor({.storage_count = -6})), corrupt, "no valid tensor for w"},
      {"a_storage_that_is_a_global", named(global("torch", "FloatStorage")), invalid, "w is a type"},
      {"no_storage",
       named(global("torch._utils", "_rebuild_tensor_v2") +
             tuple(number(0) + number(0) + numbers({1}) + numbers({1}) + "\x89N") + "R"),
       corrupt, "no valid tensor for w"},
      {"another_kind_of_persistent_object",
       named(global("torch._utils", "_rebuild_tensor_v2") +
             tuple(tuple(text("module") + global("torch", "FloatStorage") + text("0") + text("cpu") + number(6)) + "Q" +
                   number(0) + numbers({1}) + numbers({1}) + "\x89N") +
             "R"),
       corrupt, "no valid tensor for w"},
      {"a_dtype_for_a_typed_storage",
       named(global("torch._utils", "_rebuild_tensor_v3") +
             tuple(storage({}) + number(0) + numbers({1}) + numbers({1}) + "\x89N" + global("torch", "float32")) + "R"),
       corrupt, "no valid tensor for w"},
      {"a_global_of_a_very_long_name", "c" + std::string(300, 'm') + "\nx\n", corrupt, "name of a global is too long"},
      {"a_global_of_a_number", number(1) + text("x") + "\x93", corrupt, "the name of a global is no text"},
      {"a_tuple_of_too_few", text("x") + "\x86", corrupt, "takes an object that does not exist"},
      {"an_item_of_a_dict_added_to_a_list", "]" + text("x") + "Ns", corrupt, "an object that cannot hold them"},
      {"an_item_of_a_list_added_to_a_dict", "}Na", corrupt, "an object that cannot hold them"},
      {"attributes_of_a_tensor", named(tensor({}) + "}b"), corrupt, "no valid tensor for w"},
      {"a_number_of_many_bits", dict(text("x") + "\x8a\x0a" + std::string(10, '\x01')), invalid, "more than 64 bits"},
      {"a_length_beyond_the_end", "X\xff\xff\xff\xff", corrupt, "ends within an instruction"},
      {"a_length_of_64_bits", "\x8d\xff\xff\xff\xff\xff\xff\xff\xff", corrupt, "ends within an instruction"},
  };
}

INSTANTIATE_TEST_SUITE_P(Table, UnpickleTensorsRefuses, testing::ValuesIn(wrong_pickles()),
                         [](const auto& info) { return std::string{info.param.name}; });

TEST(UnpickleTensors, RefusesAPickleThatIsCutOffAnywhere) {
  using namespace pickled;
  const std::string whole = begin + ordered_dict(text("w") + parameter({}) + text("v") + tensor({})) + ".";
  ASSERT_TRUE(unpickle_tensors(whole));
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(unpickle_tensors(std::string_view{whole}.substr(0, bytes))) << bytes;
  }
}

TEST(UnpickleTensors, EndsForAnyChangedByte) {
  using namespace pickled;
  const std::string whole = begin + ordered_dict(text("w") + parameter({}) + text("v") + tensor({})) + ".";
  std::size_t refused = 0;
  for (std::size_t place = 0; place < whole.size(); ++place) {
    for (int value = 0; value < 256; value += 5) {
      std::string changed = whole;
      changed[place] = static_cast<char>(value);
      if (!unpickle_tensors(changed)) ++refused;
    }
  }
  EXPECT_GT(refused, whole.size());
}

}  // namespace
}  // namespace trainyard::checkpoint
