#include "worker/checkpoint/checkpointer.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "tests/fakes/thread_group.hpp"
#include "tests/paths/paths.hpp"
#include "tests/worker/checkpoint/a_checkpointer.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::HasSubstr;

/// The only data file of the checkpoint in `folder`.
std::string data_file(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator{folder}) {
    if (entry.path().extension() == ".safetensors") return entry.path().string();
  }
  ADD_FAILURE() << "no data file in " << folder;
  return {};
}

TEST_F(ACheckpointer, RestoresEveryTypeAndLayoutBitForBit) {
  const auto first = open(single);
  State saved = a_state(1);
  State unused = a_state(2);
  ASSERT_FALSE(first->restore(unused).value());
  expect_equal(unused, a_state(2));
  const auto done = save(*first, saved, 10);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->uri, spec().uri + "/step-10/g-1");
  EXPECT_EQ(done->time, clock.now());
  EXPECT_GT(done->bytes, 1024 * 700 * 4);

  State restored = a_state(3);
  std::vector<void*> places;
  for (const Entry& entry : restored.entries) places.push_back(entry.tensor.data_ptr());
  const auto found = open(single, 2)->restore(restored);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ((*found)->values, saved.values);
  expect_equal(restored, saved);
  for (std::size_t i = 0; i < places.size(); ++i)
    EXPECT_EQ(restored.entries[i].tensor.data_ptr(), places[i]) << "in place";
}

TEST_F(ACheckpointer, RestoresParametersThatNeedGradients) {
  const torch::Tensor parameter = torch::rand({4}).requires_grad_(true);
  State state{.entries = {{"w", Placement::replicated, parameter}}, .values = {}};
  const auto first = open(single);
  ASSERT_TRUE(first->restore(state));
  ASSERT_TRUE(save(*first, state, 1));
  const torch::Tensor before = parameter.detach().clone();
  {
    const torch::NoGradGuard no_grad;
    parameter.zero_();
  }
  const auto found = open(single, 2)->restore(state);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(torch::equal(parameter, before));
  EXPECT_TRUE(parameter.is_leaf() && parameter.requires_grad());
}

TEST_F(ACheckpointer, GivesEachRankItsOwnAndAllTheSameRest) {
  fakes::ThreadGroup group{3};
  group.run([&](Communicator& communicator) {
    State state = a_state(1);
    state.entries.back().tensor.fill_(communicator.rank());
    const auto checkpointer = open(communicator);
    ASSERT_TRUE(checkpointer->restore(state));
    const auto done = save(*checkpointer, state, 10);
    ASSERT_TRUE(done) << done.error().message;
  });
  fakes::ThreadGroup again{3};
  again.run([&](Communicator& communicator) {
    State state = a_state(2);
    const auto found = open(communicator, 2)->restore(state);
    ASSERT_TRUE(found) << found.error().message;
    State expected = a_state(1);
    expected.entries.back().tensor.fill_(communicator.rank());
    expect_equal(state, expected);
  });
}

TEST_F(ACheckpointer, SaysThatTheOnlyCheckpointIsDamaged) {
  State state = a_state(1);
  const auto first = open(single);
  ASSERT_TRUE(first->restore(state));
  ASSERT_TRUE(save(*first, state, 10));
  std::fstream file{data_file(folder.path() + "/run/step-10/g-1"), std::ios::in | std::ios::out | std::ios::binary};
  file.seekp(-1, std::ios::end);
  file.put('\x55');
  file.close();
  State fresh = a_state(2);
  const auto found = open(single, 2)->restore(fresh);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::corrupt);
  EXPECT_THAT(found.error().message, HasSubstr("none of the 1 checkpoints in"));
}

TEST_F(ACheckpointer, IsNotOpenedWhereNothingCanBeKept) {
  struct Row {
    std::string uri;
    ErrorKind kind;
    std::string says;
  };
  const Row rows[] = {
      {"/no/scheme", ErrorKind::invalid, "write file:///no/scheme"},
      {"file:///proc/version/run", ErrorKind::invalid, "choose another folder"},
  };
  for (const Row& row : rows) {
    api::CheckpointSpec wrong;
    wrong.uri = row.uri;
    const auto opened = open_checkpointer(wrong, identity, single, clock);
    ASSERT_FALSE(opened) << row.uri;
    EXPECT_EQ(opened.error().kind, row.kind) << opened.error().message;
    EXPECT_THAT(opened.error().message, HasSubstr(row.says));
  }
}

TEST_F(ACheckpointer, WritesFilesThatPythonReadsWithoutAnyCodeOfOurs) {
  State state = a_state(1);
  const auto first = open(single);
  ASSERT_TRUE(first->restore(state));
  ASSERT_TRUE(save(*first, state, 10));
  const std::string script = folder.path() + "/read.py";
  // By the format's description alone: eight bytes of length, a JSON header, and the tensors' bytes.
  std::ofstream{script} << R"(
import json, struct, sys, torch
data = open(sys.argv[1], 'rb').read()
length = struct.unpack('<Q', data[:8])[0]
header = json.loads(data[8:8 + length])
assert header.pop('__metadata__')['step'] == '10'
types = {'F64': torch.float64, 'F32': torch.float32, 'F16': torch.float16, 'BF16': torch.bfloat16, 'I64': torch.int64,
         'I32': torch.int32, 'I16': torch.int16, 'I8': torch.int8, 'U8': torch.uint8, 'BOOL': torch.bool, 'U16': torch.uint16,
         'U32': torch.uint32, 'U64': torch.uint64, 'F8_E5M2': torch.float8_e5m2, 'F8_E4M3': torch.float8_e4m3fn}
end = 0
for name, entry in header.items():
    begin, stop = entry['data_offsets']
    assert begin == end, name
    end = stop
    tensor = torch.frombuffer(bytearray(data[8 + length + begin:8 + length + stop]) or bytearray(1), dtype=torch.uint8)[:stop - begin]
    assert (8 + length + begin) % types[entry['dtype']].itemsize == 0, name
    header[name] = tensor.view(types[entry['dtype']]).reshape(entry['shape'])
assert 8 + length + end == len(data)
print(header['scalar'].item(), header['transposed'].shape, header['type.ComplexDouble'].shape, header['large'].double().sum().item())
)";
  const std::string command =
      fmt::format("{} {} {}", paths::torch_python(), script, data_file(folder.path() + "/run/step-10/g-1"));
  FILE* pipe = ::popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string said(4096, '\0');
  said.resize(::fread(said.data(), 1, said.size(), pipe));
  EXPECT_EQ(::pclose(pipe), 0);
  EXPECT_THAT(said, HasSubstr("torch.Size([6, 4]) torch.Size([3, 5, 16])"));
}

TEST(OpenCheckpointer, HandsTheEncryptionOfTheSpecToTheStore) {
  api::CheckpointSpec spec;
  spec.uri = "s3://models/a";
  spec.s3 = {.endpoint = "http://127.0.0.1:9", .server_side_encryption = "AES256", .kms_key_id = "key-1"};
  SingleCommunicator alone;
  const fakes::FakeClock clock;
  const auto opened = open_checkpointer(spec, identity, alone, clock);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("a KMS key is named, but not the encryption"));
}

}  // namespace
}  // namespace trainyard::checkpoint
