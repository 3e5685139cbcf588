// Python's torch and safetensors read what is exported.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "checkpoint/interchange/export.hpp"
#include "checkpoint/interchange/tensor_type.hpp"
#include "storage/crc32c.hpp"
#include "storage/file_store.hpp"
#include "storage/posix.hpp"
#include "tests/checkpoint/interchange/python.hpp"
#include "tests/checkpoint/interchange/test_prefix.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"

namespace trainyard::checkpoint {
namespace {

using nlohmann::json;

constexpr CheckpointId id{.step = 7, .generation = 1};

/// A tensor with bytes of its own.
struct Made {
  EntryInfo info;
  std::vector<std::byte> bytes;
};

Made make(std::string name, const Dtype& dtype, std::vector<std::int64_t> shape, Placement placement) {
  std::uint64_t bytes = dtype.element_bytes;
  for (const std::int64_t extent : shape) bytes *= static_cast<std::uint64_t>(extent);
  Made made{.info = {.name = std::move(name),
                     .placement = placement,
                     .dtype = std::string{dtype.name},
                     .shape = std::move(shape),
                     .bytes = bytes},
            .bytes = std::vector<std::byte>(bytes)};
  std::uint64_t word = storage::crc32c(made.info.name);
  for (std::byte& byte : made.bytes) {
    word = word * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<std::byte>(dtype.torch == "bool" ? word >> 63 : word >> 56);
  }
  return made;
}

class PythonReads : public testing::Test {
 protected:
  const fakes::TemporaryFolder folder;

  void SetUp() override { need_safetensors(); }

  /// The checkpoint of `state`, as `world_size` ranks save it; each rank's own are equal here.
  Manifest save(storage::Store& store, std::vector<Made>& state, std::int64_t world_size) {
    Manifest manifest{.id = id, .identity = {.job = "team/a"}, .time = test_time, .nonce = "n"};
    std::vector<HostEntry> entries;
    for (Made& made : state) entries.push_back({.info = made.info, .bytes = made.bytes});
    for (const Made& made : state) manifest.entries.push_back(made.info);
    for (std::int64_t rank = 0; rank < world_size; ++rank) {
      auto receipt = write_share(store, manifest, rank, world_size, entries);
      EXPECT_TRUE(receipt);
      manifest.receipts.push_back(std::move(*receipt));
    }
    return manifest;
  }

  std::string export_to(const std::string& name, storage::Store& store, const Manifest& manifest,
                        const ExportChoice& choice) {
    const std::string path = folder.file(name).string();
    const auto plan = plan_export(manifest, choice);
    EXPECT_TRUE(plan) << plan.error().message;
    auto file = NewFile::create(path, false);
    DataStream data{store, manifest, 1000};
    const auto written =
        name.ends_with(".pt") ? write_torch(data, *plan, *file) : write_safetensors(data, manifest, *plan, *file);
    EXPECT_TRUE(written) << written.error().message;
    EXPECT_TRUE(file->commit());
    return path;
  }

  /// Writes what a reader must find: name, dtype, shape, and a file with the bytes.
  std::string expect_of(const std::vector<Made>& state, std::string_view stripped) {
    json list = json::array();
    for (const Made& made : state) {
      const std::string_view bytes{reinterpret_cast<const char*>(made.bytes.data()), made.bytes.size()};
      const std::string bytes_file = folder.write(fmt::format("bytes-{}", list.size()), bytes).string();
      std::string name = made.info.name;
      if (name.starts_with(stripped)) name.erase(0, stripped.size());
      list.push_back({{"name", name},
                      {"dtype", find_dtype(made.info.dtype)->torch},
                      {"shape", made.info.shape},
                      {"bytes", bytes_file}});
    }
    return folder.write(fmt::format("expected-{}.json", stripped), list.dump()).string();
  }

  void python(const std::string& arguments) {
    const std::string log = folder.file("log").string();
    const std::string command =
        fmt::format("{} {} {} > {} 2>&1", paths::torch_python(),
                    paths::source("tests/checkpoint/interchange/python_oracle.py"), arguments, log);
    EXPECT_EQ(std::system(command.c_str()), 0) << arguments << "\n" << fakes::text_of(log);
  }
};

constexpr std::array dtype_names = {"F64", "F32", "F16",  "BF16",         "F8_E5M2",     "F8_E4M3",
                                    "I64", "I32", "I16",  "I8",           "U64",         "U32",
                                    "U16", "U8",  "BOOL", "ComplexFloat", "ComplexHalf", "ComplexDouble"};

std::vector<Made> every_dtype(const std::vector<std::string>& left_out) {
  std::vector<Made> state;
  for (const std::string name : dtype_names) {
    if (std::find(left_out.begin(), left_out.end(), name) != left_out.end()) continue;
    const Dtype dtype = *find_dtype(name);
    state.push_back(make("model.matrix." + name, dtype, {3, 5}, Placement::replicated));
    state.push_back(make("model.scalar." + name, dtype, {}, Placement::rank0));
    state.push_back(make("model.empty." + name, dtype, {2, 0, 3}, Placement::replicated));
    state.push_back(make("model.ünï \"quoted\"\\." + name, dtype, {1, 2, 1, 3}, Placement::replicated));
  }
  // Large enough to be cut over the ranks.
  state.push_back(make("model.large", *find_dtype("BF16"), {2111, 512}, Placement::replicated));
  return state;
}

TEST_F(PythonReads, EveryDtypeOfAPtFileBitByBit) {
  storage::FileStore store{folder.path() + "/run"};
  std::vector<Made> state = every_dtype({});
  const Manifest manifest = save(store, state, 3);
  python(fmt::format("{} {} {} {}", export_to("model.pt", store, manifest, {}), expect_of(state, "model."),
                     export_to("all.pt", store, manifest, {.is_all = true}), expect_of(state, "")));
}

TEST_F(PythonReads, EveryDtypeThatSafetensorsHasBitByBit) {
  storage::FileStore store{folder.path() + "/run"};
  std::vector<Made> state = every_dtype({"ComplexHalf", "ComplexDouble"});
  const Manifest manifest = save(store, state, 3);
  python(fmt::format("{} {}", export_to("model.safetensors", store, manifest, {}), expect_of(state, "model.")));
}

TEST_F(PythonReads, AModulesOwnStateDict) {
  storage::FileStore store{folder.path() + "/run"};
  const Dtype f32 = *find_dtype("F32");
  std::vector<Made> state = {make("model.0.weight", f32, {4, 3, 2, 2}, Placement::replicated),
                             make("model.0.bias", f32, {4}, Placement::replicated),
                             make("model.1.weight", f32, {4}, Placement::replicated),
                             make("model.1.bias", f32, {4}, Placement::replicated),
                             make("model.1.running_mean", f32, {4}, Placement::rank0),
                             make("model.1.running_var", f32, {4}, Placement::rank0),
                             make("model.1.num_batches_tracked", *find_dtype("I64"), {}, Placement::rank0),
                             make("optimizer.exp_avg.0.weight", f32, {4, 3, 2, 2}, Placement::replicated),
                             make("rng.cpu", *find_dtype("U8"), {99}, Placement::per_rank)};
  const Manifest manifest = save(store, state, 2);
  python(fmt::format("--module {} {}", export_to("model.pt", store, manifest, {}),
                     export_to("model.safetensors", store, manifest, {})));
}

// Zeros of any size, but for one short file's bytes at the end.
class ZeroStore final : public storage::Store {
 public:
  explicit ZeroStore(std::uint64_t zero_bytes, std::vector<std::byte> tail)
      : zero_bytes_{zero_bytes}, tail_{std::move(tail)} {}
  Result<void> get_range(std::string_view, std::uint64_t offset, std::span<std::byte> into) override {
    std::fill(into.begin(), into.end(), std::byte{0});
    for (std::uint64_t i = 0; i < tail_.size(); ++i) {
      const std::uint64_t place = zero_bytes_ + i;
      if (place >= offset && place < offset + into.size()) into[place - offset] = tail_[i];
    }
    return {};
  }
  Result<void> probe() override { return {}; }
  Result<void> put(std::string_view, storage::Pieces, const storage::PutOptions&) override { return {}; }
  Result<std::vector<std::byte>> get(std::string_view) override { return std::vector<std::byte>{}; }
  Result<std::vector<storage::ObjectInfo>> list(std::string_view) override {
    return std::vector<storage::ObjectInfo>{};
  }
  Result<void> remove(std::string_view, const std::stop_token&) override { return {}; }
  Result<void> remove_unfinished(const std::function<bool(std::string_view)>&) override { return {}; }
  [[nodiscard]] bool has_conditional_create() const override { return true; }
  [[nodiscard]] std::string uri_of(std::string_view key) const override { return std::string{key}; }

 private:
  std::uint64_t zero_bytes_;
  std::vector<std::byte> tail_;
};

// A file whose zeros take no room on the disk.
class SparseFile final : public Sink {
 public:
  explicit SparseFile(const std::string& path) : file_{storage::posix::create_file(path).value()} {}
  Result<void> write(std::span<const std::byte> bytes) override {
    const bool is_zero =
        bytes.front() == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
    if (is_zero) {
      ::lseek(file_.get(), static_cast<off_t>(bytes.size()), SEEK_CUR);
    } else {
      EXPECT_EQ(::write(file_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    }
    return {};
  }
  Result<void> patch(std::uint64_t offset, std::span<const std::byte> bytes) override {
    EXPECT_EQ(::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes.size()));
    return {};
  }

 private:
  FileDescriptor file_;
};

TEST_F(PythonReads, TensorsAndPlacesBeyondFourGibibytes) {
  constexpr std::uint64_t huge_bytes = (std::uint64_t{4} << 30) + (std::uint64_t{64} << 20);
  const Made tail = make("model.tail", *find_dtype("U8"), {64}, Placement::replicated);
  std::uint32_t zero_crc = 0;
  const std::vector<std::byte> zeros(std::uint64_t{64} << 20);
  for (std::uint64_t done = 0; done < huge_bytes; done += zeros.size()) zero_crc = storage::crc32c(zeros, zero_crc);
  Manifest manifest{.id = id, .nonce = "n"};
  manifest.entries = {{.name = "model.huge",
                       .dtype = "U8",
                       .shape = {static_cast<std::int64_t>(huge_bytes / 4), 4},
                       .bytes = huge_bytes},
                      tail.info};
  manifest.receipts = {{.rank = 0, .bytes = huge_bytes + 64}};
  manifest.receipts.front().chunks = {
      {.entry = "model.huge", .row_end = huge_bytes / 4, .offset = 0, .bytes = huge_bytes, .crc32c = zero_crc},
      {.entry = "model.tail", .row_end = 64, .offset = huge_bytes, .bytes = 64, .crc32c = storage::crc32c(tail.bytes)}};
  ZeroStore store{huge_bytes, tail.bytes};
  const auto plan = plan_export(manifest, {});
  ASSERT_TRUE(plan) << plan.error().message;
  const std::string expected = expect_of({tail}, "model.");
  std::string arguments = "--huge";
  for (const std::string name : {"huge.pt", "huge.safetensors"}) {
    const std::string path = folder.file(name).string();
    {
      DataStream data{store, manifest};
      SparseFile file{path};
      const auto written =
          name.ends_with(".pt") ? write_torch(data, *plan, file) : write_safetensors(data, manifest, *plan, file);
      ASSERT_TRUE(written) << written.error().message;
    }
    arguments += fmt::format(" {} {}", path, expected);
  }
  python(arguments);
}

}  // namespace
}  // namespace trainyard::checkpoint
