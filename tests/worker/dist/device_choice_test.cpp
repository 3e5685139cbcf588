#include "worker/dist/device_choice.hpp"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/fakes/thread_group.hpp"
#include "worker/dist/cuda_module.hpp"

namespace trainyard::dist {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const DriverAnswer no_driver{.trouble = "libcuda.so.1: cannot open shared object file"};
const DriverAnswer failing_driver{.is_present = true,
                                  .trouble = "cuInit returned error 802 (CUDA_ERROR_SYSTEM_NOT_READY)"};

DriverAnswer shows(std::int64_t devices) {
  return {.is_present = true, .devices = devices};
}

Result<void> no_module() {
  return fail(ErrorKind::not_found, "there is no /app/libtrainyard_cuda.so");
}

TEST(ChooseDevice, TakesWhatWasPromisedOrSaysWhatIsMissing) {
  struct Row {
    std::string name;
    DeviceFacts facts;
    std::optional<std::int64_t> device = {};
    std::optional<ErrorKind> error = {};  // unavailable: another node may do better
    std::vector<std::string> words = {};
  };
  const std::vector<Row> rows{
      {"0 promised, GPUs in sight", {.promised = 0, .driver = shows(8)}},
      {"0 promised, no driver", {.promised = 0, .driver = no_driver}},
      {"0 promised, the driver fails", {.promised = 0, .driver = failing_driver}},
      {"as promised", {.promised = 4, .local_rank = 3, .driver = shows(4)}, 3},
      {"more than promised", {.promised = 1, .driver = shows(8)}, 0},
      {"one too few, though this rank's own is there",
       {.promised = 4, .local_rank = 0, .node = "node n1", .driver = shows(3)},
       {},
       ErrorKind::unavailable,
       {"promises this pod 4 GPUs", "on node n1", "the driver shows 3 GPUs"}},
      {"none at all",
       {.promised = 1, .node = "node n1", .driver = shows(0)},
       {},
       ErrorKind::unavailable,
       {"promises this pod 1 GPU,", "on node n1", "the driver shows 0 GPUs"}},
      {"no driver in the container",
       {.promised = 1, .node = "node n1", .driver = no_driver},
       {},
       ErrorKind::unavailable,
       {"on node n1", "no NVIDIA driver (libcuda.so.1: cannot open shared object file)"}},
      {"the driver fails",
       {.promised = 1, .node = "node n1", .driver = failing_driver},
       {},
       ErrorKind::unavailable,
       {"on node n1", "error 802 (CUDA_ERROR_SYSTEM_NOT_READY)"}},
      {"an image for the CPU, whatever the driver says",
       {.promised = 1, .cuda_module = no_module(), .driver = no_driver},
       {},
       ErrorKind::not_found,
       {"promises this pod 1 GPU", "there is no /app/libtrainyard_cuda.so", "use the CUDA image"}},
      {"more ranks than were promised",
       {.promised = 1, .local_rank = 1, .driver = shows(1)},
       {},
       ErrorKind::invalid,
       {"LOCAL_RANK is 1, but the driver shows 1 GPU"}},
      {"a template that hides the GPUs, which cuInit reports as no device",
       {.promised = 1, .driver = {.is_present = true, .visible_devices = ""}},
       {},
       ErrorKind::invalid,
       {"promises this pod 1 GPU", "CUDA_VISIBLE_DEVICES is \"\"", "leave that variable out"}},
      {"a template that names fewer GPUs than were promised",
       {.promised = 3, .driver = {.is_present = true, .devices = 2, .visible_devices = "0,1,-1,2"}},
       {},
       ErrorKind::invalid,
       {"promises this pod 3 GPUs", "CUDA_VISIBLE_DEVICES is \"0,1,-1,2\""}},
      {"a template whose second name is empty, behind which the driver sees none",
       {.promised = 2, .driver = {.is_present = true, .devices = 1, .visible_devices = "0,,1"}},
       {},
       ErrorKind::invalid,
       {"CUDA_VISIBLE_DEVICES is \"0,,1\""}},
      {"a template that names what was promised, with a comma behind it",
       {.promised = 2, .local_rank = 1, .driver = {.is_present = true, .devices = 2, .visible_devices = "0,1,"}},
       1},
      {"as many names as GPUs were promised, of which the node lacks one",
       {.promised = 2, .driver = {.is_present = true, .devices = 1, .visible_devices = "GPU-a,GPU-b"}},
       {},
       ErrorKind::unavailable,
       {"the driver shows 1 GPU"}},
      {"nothing promised, all GPUs hidden", {.driver = {.is_present = true, .visible_devices = ""}}},
      {"0 promised, all GPUs hidden", {.promised = 0, .driver = {.is_present = true, .visible_devices = ""}}},
      {"nothing promised, no driver", {.cuda_module = no_module(), .driver = no_driver}},
      {"nothing promised, no GPU", {.cuda_module = no_module(), .driver = shows(0)}},
      {"nothing promised, GPUs in sight", {.local_rank = 1, .driver = shows(2)}, 1},
      {"nothing promised, the driver fails",
       {.node = "node n1", .driver = failing_driver},
       {},
       ErrorKind::unavailable,
       {"on node n1 fails", "error 802", "set TRAINYARD_GPUS_PER_POD=0"}},
      {"nothing promised, a program for the CPU",
       {.cuda_module = no_module(), .driver = shows(2)},
       {},
       ErrorKind::not_found,
       {"the driver shows 2 GPUs", "there is no /app/libtrainyard_cuda.so", "set TRAINYARD_GPUS_PER_POD=0"}},
      {"nothing promised, more ranks than GPUs",
       {.local_rank = 2, .driver = shows(2)},
       {},
       ErrorKind::invalid,
       {"LOCAL_RANK is 2, but the driver shows 2 GPUs"}},
  };
  for (const Row& row : rows) {
    const auto device = choose_device(row.facts);
    if (!row.error) {
      ASSERT_TRUE(device) << row.name << ": " << device.error().message;
      EXPECT_EQ(*device, row.device) << row.name;
      continue;
    }
    ASSERT_FALSE(device) << row.name;
    EXPECT_EQ(device.error().kind, *row.error) << row.name;
    for (const std::string& words : row.words) EXPECT_THAT(device.error().message, HasSubstr(words)) << row.name;
  }
}

TEST(AgreeOnDeviceKind, NamesOnEveryRankThoseThatSeeNoGpu) {
  for (const std::vector<bool>& has_gpu : {std::vector<bool>{true, false, true}, {true, true, true}, {false, false}}) {
    const bool is_mixed = has_gpu.size() == 3 && !has_gpu[1];
    fakes::MeetingPlace place{static_cast<std::int64_t>(has_gpu.size())};
    std::vector<std::jthread> ranks;
    for (std::size_t rank = 0; rank < has_gpu.size(); ++rank) {
      ranks.emplace_back([&, rank] {
        fakes::ThreadCommunicator communicator{static_cast<std::int64_t>(rank), place};
        const auto agreed = agree_on_device_kind(has_gpu[rank], communicator);
        EXPECT_EQ(agreed.has_value(), !is_mixed);
        if (!agreed) {
          EXPECT_EQ(agreed.error().kind, ErrorKind::conflict);
          EXPECT_THAT(agreed.error().message, HasSubstr("rank 1 of 3 sees no GPU, but the others do"));
        }
        place.leave();
      });
    }
  }
}

/// A group of one thread, in which the kinds of the other ranks are given.
class ToldCommunicator final : public checkpoint::Communicator {
 public:
  explicit ToldCommunicator(std::vector<std::string> texts) : texts_{std::move(texts)} {}
  [[nodiscard]] std::int64_t rank() const override { return 0; }
  [[nodiscard]] std::int64_t world_size() const override { return static_cast<std::int64_t>(texts_.size()); }
  Result<std::vector<std::string>> all_gather(std::string_view text) override {
    texts_.front() = text;
    return texts_;
  }
  Result<std::string> broadcast(std::string_view text, std::int64_t /*root*/) override { return std::string{text}; }
  Result<void> broadcast_parts(std::span<const checkpoint::BroadcastPart> /*parts*/) override { return {}; }

 private:
  std::vector<std::string> texts_;
};

TEST(AgreeOnDeviceKind, NamesUpToEightOfTheRanksThatSeeNoGpu) {
  const auto refusal = [](std::size_t without) {
    std::vector<std::string> kinds(without + 1, "cpu");
    ToldCommunicator communicator{kinds};
    const auto agreed = agree_on_device_kind(true, communicator);
    return agreed ? "" : agreed.error().message.substr(0, agreed.error().message.find(':'));
  };
  EXPECT_EQ(refusal(2), "ranks 1, 2 of 3 see no GPU, but the others do");
  EXPECT_EQ(refusal(8), "ranks 1, 2, 3, 4, 5, 6, 7, 8 of 9 see no GPU, but the others do");
  EXPECT_EQ(refusal(9), "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 1 more of 10 see no GPU, but the others do");
}

TEST(LoadCudaModule, SaysWhyAFileIsNoModuleOfThisVersion) {
  const auto refusal = [](const std::string& path) {
    const auto module = load_cuda_module(
        [&](std::string_view name) { return name == "TRAINYARD_CUDA_MODULE" ? std::optional{path} : std::nullopt; });
    EXPECT_FALSE(module) << path;
    return module.error();
  };
  EXPECT_EQ(refusal("/no/such/module.so").kind, ErrorKind::not_found);
  const Error no_library = refusal("/proc/version");
  EXPECT_EQ(no_library.kind, ErrorKind::internal);
  EXPECT_THAT(no_library.message, HasSubstr("/proc/version does not load: "));
  Dl_info torch{};
  ASSERT_NE(dladdr(reinterpret_cast<const void*>(&at::get_num_threads), &torch), 0);
  const Error other = refusal(torch.dli_fname);
  EXPECT_EQ(other.kind, ErrorKind::internal);
  EXPECT_THAT(other.message, HasSubstr(" is of another version of Trainyard: "));
}

TEST(CudaModulePlaces, AreBesideTheProgramThenTheLauncherThenWhereImagesHaveIt) {
  EXPECT_THAT(cuda_module_places({}, "/app", "/opt/trainyard/bin"),
              ElementsAre("/app/libtrainyard_cuda.so", "/lib/libtrainyard_cuda.so",
                          "/opt/trainyard/bin/libtrainyard_cuda.so", "/opt/trainyard/lib/libtrainyard_cuda.so",
                          "/usr/local/bin/libtrainyard_cuda.so", "/usr/local/lib/libtrainyard_cuda.so"));
  EXPECT_THAT(cuda_module_places({}, "/usr/local/bin", "/usr/local/bin"),
              ElementsAre("/usr/local/bin/libtrainyard_cuda.so", "/usr/local/lib/libtrainyard_cuda.so"));
  EXPECT_THAT(cuda_module_places("/elsewhere/cuda.so", "/app", "/usr/local/bin"), ElementsAre("/elsewhere/cuda.so"));
}

TEST(FirstExisting, NamesAllPlacesWhereItLooked) {
  EXPECT_EQ(*first_existing({"/nowhere", "/proc/self/exe", "/"}), "/proc/self/exe");
  const auto found = first_existing({"/nowhere/a.so", "/nowhere/b.so"});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::not_found);
  EXPECT_EQ(found.error().message,
            "there is no /nowhere/a.so, no /nowhere/b.so (TRAINYARD_CUDA_MODULE names the file where it is elsewhere)");
}

}  // namespace
}  // namespace trainyard::dist
