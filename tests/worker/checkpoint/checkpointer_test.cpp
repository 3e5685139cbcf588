#include "worker/checkpoint/checkpointer.hpp"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <latch>
#include <memory>
#include <mutex>

#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/gate.hpp"
#include "tests/fakes/memory_store.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/fakes/thread_group.hpp"
#include "tests/paths/paths.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::HasSubstr;

const Identity identity{.job = "team/a", .job_uid = "uid", .attempt = 1, .fingerprint = "f"};

// A tensor of random bits, which for floats include NaNs and infinities.
torch::Tensor random_bits(std::vector<std::int64_t> shape, torch::ScalarType type) {
  if (type == torch::kBool) return torch::randint(0, 2, shape, torch::kInt32).to(torch::kBool);
  std::vector<std::int64_t> byte_shape = shape;
  byte_shape.push_back(static_cast<std::int64_t>(c10::elementSize(type)));
  return torch::randint(0, 256, byte_shape, torch::kUInt8).view(type).reshape(shape);
}

std::vector<torch::ScalarType> all_types() {
  return {torch::kFloat64,       torch::kFloat32,       torch::kFloat16,        torch::kBFloat16, torch::kFloat8_e5m2,
          torch::kFloat8_e4m3fn, torch::kInt64,         torch::kInt32,          torch::kInt16,    torch::kInt8,
          torch::kUInt8,         torch::kUInt16,        torch::kUInt32,         torch::kUInt64,   torch::kBool,
          torch::kComplexFloat,  torch::kComplexDouble, torch::kFloat8_e4m3fnuz};
}

State a_state(std::uint64_t seed) {
  static std::mutex mutex;  // guards torch's default generator, which the ranks' threads share
  const std::scoped_lock lock{mutex};
  torch::manual_seed(seed);
  State state;
  for (const torch::ScalarType type : all_types()) {
    state.entries.push_back(
        {fmt::format("type.{}", c10::toString(type)), Placement::replicated, random_bits({3, 5}, type)});
  }
  state.entries.push_back({"scalar", Placement::replicated, torch::rand({})});
  state.entries.push_back({"empty", Placement::replicated, torch::empty({0, 3})});
  state.entries.push_back({"transposed", Placement::replicated, torch::rand({4, 6}).t()});
  state.entries.push_back({"strided", Placement::replicated, torch::rand({8, 8}).slice(1, 0, 8, 2)});
  state.entries.push_back({"large", Placement::replicated, torch::rand({1024, 700})});
  state.entries.push_back({"buffer", Placement::rank0, torch::rand({7})});
  state.entries.push_back({"rng", Placement::per_rank, torch::randint(0, 256, {5056}, torch::kUInt8)});
  state.values = {{"step", 10}};
  return state;
}

bool has_equal_bytes(const torch::Tensor& a, const torch::Tensor& b) {
  const torch::Tensor x = a.contiguous();
  const torch::Tensor y = b.contiguous();
  return x.scalar_type() == y.scalar_type() && x.sizes() == y.sizes() &&
         std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

void expect_equal(const State& a, const State& b) {
  ASSERT_EQ(a.entries.size(), b.entries.size());
  for (std::size_t i = 0; i < a.entries.size(); ++i) {
    EXPECT_TRUE(has_equal_bytes(a.entries[i].tensor, b.entries[i].tensor)) << a.entries[i].name;
  }
}

// Begins a save and waits for its end.
Result<Saved> save(Checkpointer& checkpointer, const State& state, std::int64_t step) {
  checkpointer.begin_save(state, step, {});
  const auto outcome = checkpointer.take_outcome(std::chrono::minutes{1});
  if (!outcome) return fail(ErrorKind::timeout, "the save does not end");
  if (!outcome->saved) return tl::unexpected(outcome->saved.error());
  if (!*outcome->saved) return fail(ErrorKind::invalid, "the state is not sound");
  return **outcome->saved;
}

struct ACheckpointer : testing::Test {
  [[nodiscard]] resource::CheckpointSpec spec() const {
    resource::CheckpointSpec spec;
    spec.uri = folder.uri() + "/run";
    return spec;
  }
  [[nodiscard]] std::unique_ptr<Checkpointer> open(dist::Communicator& communicator, std::int64_t attempt = 1) const {
    Identity who = identity;
    who.attempt = attempt;
    auto opened = open_checkpointer(spec(), who, communicator, clock);
    return opened ? std::move(*opened) : nullptr;
  }
  [[nodiscard]] std::unique_ptr<Checkpointer> open(std::unique_ptr<storage::Store> store,
                                                   dist::Communicator& communicator, std::int64_t attempt = 1) const {
    Identity who = identity;
    who.attempt = attempt;
    auto opened = open_checkpointer(std::move(store), spec(), who, communicator, clock);
    return opened ? std::move(*opened) : nullptr;
  }
  // A store whose checkpoints' files wait at `gate`.
  [[nodiscard]] static std::unique_ptr<storage::Store> held_up(fakes::MemoryObjects& objects, fakes::Gate& gate) {
    return std::make_unique<fakes::FaultyStore>(
        std::make_unique<fakes::MemoryStore>(objects),
        [&gate](std::string_view call, std::string_view key, storage::Pieces) -> std::optional<Error> {
          if (call == "put" && key.starts_with(checkpoints_prefix)) gate.pass();
          return std::nullopt;
        });
  }

  fakes::TemporaryFolder folder;
  fakes::FakeClock clock;
  dist::SingleCommunicator single;
};

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
  group.run([&](dist::Communicator& communicator) {
    State state = a_state(1);
    state.entries.back().tensor.fill_(communicator.rank());
    const auto checkpointer = open(communicator);
    ASSERT_TRUE(checkpointer->restore(state));
    const auto done = save(*checkpointer, state, 10);
    ASSERT_TRUE(done) << done.error().message;
  });
  fakes::ThreadGroup again{3};
  again.run([&](dist::Communicator& communicator) {
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
  std::fstream file{folder.path() + "/run/step-10/g-1/rank-0.safetensors",
                    std::ios::in | std::ios::out | std::ios::binary};
  file.seekp(-1, std::ios::end);
  file.put('\x55');
  file.close();
  State fresh = a_state(2);
  const auto found = open(single, 2)->restore(fresh);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::corrupt);
  EXPECT_THAT(found.error().message, HasSubstr("none of the 1 checkpoints in"));
}

TEST_F(ACheckpointer, RefusesOnAllRanksWhatOneRankCannotSave) {
  fakes::ThreadGroup group{2};
  group.run([&](dist::Communicator& communicator) {
    State state = a_state(1);
    const auto checkpointer = open(communicator);
    ASSERT_TRUE(checkpointer->restore(state));
    if (communicator.rank() == 1) state.entries[3].tensor = torch::eye(3).to_sparse();
    const auto done = save(*checkpointer, state, 10);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::invalid);
    EXPECT_THAT(done.error().message, HasSubstr("rank 1: type.BFloat16 cannot be saved"));
  });
}

TEST_F(ACheckpointer, WritesTheStateAsItWasWhenTheSaveWasBegun) {
  fakes::MemoryObjects objects;
  for (const std::int64_t world_size : {1, 2}) {
    objects.objects.clear();
    fakes::Gate gate;
    std::latch have_changed{world_size};
    fakes::ThreadGroup group{world_size};
    group.run([&](dist::Communicator& communicator) {
      const auto checkpointer = open(held_up(objects, gate), communicator);
      State state = a_state(1);
      ASSERT_TRUE(checkpointer->restore(state));
      checkpointer->begin_save(state, 10, {});
      gate.wait_for_arrival();
      EXPECT_TRUE(checkpointer->is_saving());
      EXPECT_FALSE(checkpointer->take_outcome());
      for (const Entry& entry : state.entries) entry.tensor.zero_();
      have_changed.arrive_and_wait();
      gate.open();
      const auto outcome = checkpointer->take_outcome(std::chrono::minutes{1});
      ASSERT_TRUE(outcome && outcome->saved && *outcome->saved);
      EXPECT_EQ(outcome->step, 10);
      EXPECT_FALSE(checkpointer->is_saving());
      EXPECT_FALSE(checkpointer->take_outcome()) << "it is told once";
    });
    fakes::ThreadGroup again{world_size};
    again.run([&](dist::Communicator& communicator) {
      State state = a_state(2);
      const auto found = open(std::make_unique<fakes::MemoryStore>(objects), communicator, 2)->restore(state);
      ASSERT_TRUE(found) << found.error().message;
      expect_equal(state, a_state(1));
    });
  }
}

TEST_F(ACheckpointer, FollowsAStateWhoseShapesChange) {
  State state = a_state(1);
  const auto first = open(single);
  ASSERT_TRUE(first->restore(state));
  std::int64_t step = 0;
  for (const std::int64_t rows : {5056, 20, 1024}) {
    state.entries.back().tensor = torch::randint(0, 256, {rows}, torch::kUInt8);
    ASSERT_TRUE(save(*first, state, ++step));
  }
  State restored = a_state(2);
  restored.entries.back().tensor = torch::zeros({1024}, torch::kUInt8);
  ASSERT_TRUE(open(single, 2)->restore(restored));
  expect_equal(restored, state);
}

TEST_F(ACheckpointer, LeavesOutAStateThatIsNotSoundOnAnyRankUnlessItIsTheLast) {
  struct Row {
    std::string_view name;
    bool is_loss_finite;  // On rank 1.
    bool is_weight_finite;
    bool is_complete;
    bool is_saved;
  };
  const Row rows[] = {
      {"all is finite", true, true, false, true},
      {"one rank's loss is not", false, true, false, false},
      {"a weight is not", true, false, false, false},
      {"nothing is, at the training's end", false, false, true, true},
  };
  for (const Row& row : rows) {
    fakes::MemoryObjects objects;
    fakes::ThreadGroup group{2};
    group.run([&](dist::Communicator& communicator) {
      const auto checkpointer = open(std::make_unique<fakes::MemoryStore>(objects), communicator);
      State state;
      // The last row of the large one is rank 1's to write, and to look at.
      state.entries.push_back({"model.w", Placement::replicated, torch::ones({1024, 700}), true});
      state.entries.push_back({"optimizer.w", Placement::replicated, torch::full({3}, INFINITY), false});
      if (!row.is_weight_finite) state.entries[0].tensor[1023][699] = std::nan("");
      ASSERT_TRUE(checkpointer->restore(state));
      checkpointer->begin_save(
          state, 10, {.is_complete = row.is_complete, .is_sound = row.is_loss_finite || communicator.rank() == 0});
      const auto outcome = checkpointer->take_outcome(std::chrono::minutes{1});
      ASSERT_TRUE(outcome && outcome->saved) << row.name;
      EXPECT_EQ(outcome->saved->has_value(), row.is_saved) << row.name;
    });
  }
}

TEST_F(ACheckpointer, FailsOnAllRanksWhenOneCannotWriteAndSavesTheNext) {
  fakes::MemoryObjects objects;
  fakes::ThreadGroup group{2};
  group.run([&](dist::Communicator& communicator) {
    int failures_left = communicator.rank() == 1 ? 2 : 0;
    const auto checkpointer =
        open(std::make_unique<fakes::FaultyStore>(
                 std::make_unique<fakes::MemoryStore>(objects),
                 [&](std::string_view call, std::string_view, storage::Pieces) -> std::optional<Error> {
                   if (call != "put" || failures_left == 0) return std::nullopt;
                   --failures_left;
                   return Error{ErrorKind::io, "no space left on device", std::nullopt};
                 }),
             communicator);
    State state = a_state(1);
    ASSERT_TRUE(checkpointer->restore(state));
    for (const std::int64_t step : {10, 20}) {
      const auto failed = save(*checkpointer, state, step);
      ASSERT_FALSE(failed);
      EXPECT_EQ(failed.error(), (Error{ErrorKind::io, "rank 1: no space left on device", std::nullopt}));
    }
    EXPECT_TRUE(save(*checkpointer, state, 30));
  });
}

TEST_F(ACheckpointer, SaysThatTheRanksHaveLostEachOtherAndNotThatTheStorageFails) {
  fakes::MemoryObjects objects;
  fakes::ThreadGroup group{2};
  group.run([&](dist::Communicator& communicator) {
    const auto checkpointer = open(std::make_unique<fakes::MemoryStore>(objects), communicator);
    State state = a_state(1);
    ASSERT_TRUE(checkpointer->restore(state));
    if (communicator.rank() == 1) return;
    const auto failed = save(*checkpointer, state, 10);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().kind, ErrorKind::cancelled);
  });
}

TEST_F(ACheckpointer, IsNotOpenedWhereNothingCanBeKept) {
  struct Row {
    std::string uri;
    ErrorKind kind;
    std::string says;
  };
  const Row rows[] = {
      {"/no/scheme", ErrorKind::invalid, "s3://bucket/prefix"},
      {"file:///proc/version/run", ErrorKind::invalid, "choose another folder"},
  };
  for (const Row& row : rows) {
    resource::CheckpointSpec wrong;
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
      fmt::format("{} {} {}/run/step-10/g-1/rank-0.safetensors", paths::torch_python(), script, folder.path());
  FILE* pipe = ::popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string said(4096, '\0');
  said.resize(::fread(said.data(), 1, said.size(), pipe));
  EXPECT_EQ(::pclose(pipe), 0);
  EXPECT_THAT(said, HasSubstr("torch.Size([6, 4]) torch.Size([3, 5, 16])"));
}

TEST(OpenCheckpointer, HandsTheEncryptionOfTheSpecToTheStore) {
  resource::CheckpointSpec spec;
  spec.uri = "s3://models/a";
  spec.s3 = {.endpoint = "http://127.0.0.1:9", .server_side_encryption = "AES256", .kms_key_id = "key-1"};
  dist::SingleCommunicator alone;
  const fakes::FakeClock clock;
  const auto opened = open_checkpointer(spec, identity, alone, clock);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("a KMS key is named, but not the encryption"));
}

}  // namespace
}  // namespace trainyard::checkpoint
