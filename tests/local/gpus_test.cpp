#include "local/gpus.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"

namespace trainyard::local {
namespace {

using Gpus = std::vector<std::string>;

TEST(FindGpus, CountsDeviceFilesUnlessVariablesNameTheGpus) {
  const fakes::TemporaryFolder devices;
  const std::string& folder = devices.path();
  EXPECT_EQ(find_gpus({}, folder), Gpus{});
  EXPECT_EQ(find_gpus("0,1", folder), Gpus{}) << "a variable makes no devices";
  for (const auto* name :
       {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia", "nvidia-9", "nvidia1x", "nvme12345", "null"})
    devices.write(name, "");
  EXPECT_EQ(find_gpus({}, folder), (Gpus{"0", "1"}));
  devices.write("nvidia9", "");
  EXPECT_EQ(find_gpus({}, folder), (Gpus{"0", "1", "2"}));
  EXPECT_EQ(find_gpus("0,", folder), Gpus{"0"});
  EXPECT_EQ(find_gpus("1", folder), Gpus{"1"});
  EXPECT_EQ(find_gpus("GPU-8f2a,MIG-1", folder), (Gpus{"GPU-8f2a", "MIG-1"}));
  EXPECT_EQ(find_gpus("", folder), Gpus{});
  EXPECT_EQ(find_gpus("0,-1,1", folder), Gpus{"0"});
  EXPECT_EQ(find_gpus({}, folder + "/absent"), Gpus{});
}

using api::DeviceChoice;
using Kind = DeviceChoice::Kind;

TEST(ChooseGpus, TakesThoseThatAreAskedForInTheirOrder) {
  const Gpus gpus{"GPU-a", "GPU-b", "GPU-c"};
  EXPECT_EQ(choose_gpus({.kind = Kind::all}, gpus), gpus);
  EXPECT_EQ(choose_gpus({.kind = Kind::first, .count = 2}, gpus), (Gpus{"GPU-a", "GPU-b"}));
  EXPECT_EQ(choose_gpus({.kind = Kind::first, .count = 3}, gpus), gpus);
  EXPECT_EQ(choose_gpus({.kind = Kind::listed, .count = 0, .indices = {2, 0}}, gpus), (Gpus{"GPU-c", "GPU-a"}));
}

TEST(ChooseGpus, NamesWhatIsAskedForAndWhatThereIs) {
  struct Case {
    DeviceChoice choice;
    Gpus gpus;
    std::string sentence;
  };
  const std::vector<Case> table{
      {{.kind = Kind::all}, {}, "all GPUs are asked for, but this machine has no GPU"},
      {{.kind = Kind::first, .count = 3}, {"0", "1"}, "3 GPUs are asked for, but this machine has 2, counted from 0"},
      {{.kind = Kind::first, .count = 1}, {}, "1 GPU is asked for, but this machine has no GPU"},
      {{.kind = Kind::listed, .count = 0, .indices = {0, 2}},
       {"0", "1"},
       "GPUs 0, 2 are asked for, but this machine has 2, counted from 0"},
  };
  for (const Case& one : table) {
    const auto chosen = choose_gpus(one.choice, one.gpus);
    ASSERT_FALSE(chosen) << one.sentence;
    EXPECT_EQ(chosen.error().kind, ErrorKind::invalid);
    EXPECT_EQ(chosen.error().message, one.sentence);
  }
}

TEST(WithoutTaken, CountsANameThatIsThereTwiceAsTwoGpus) {
  EXPECT_EQ(without_taken({"0", "0", "1"}, {"0"}), (Gpus{"0", "1"}));
  EXPECT_EQ(without_taken({"0", "0"}, {"0", "0"}), Gpus{});
  EXPECT_EQ(without_taken({"0", "1"}, {}), (Gpus{"0", "1"}));
}

TEST(ChooseFreeGpus, TakesTheFirstFreeOnesOrSaysHowManyAreInUse) {
  const DeviceChoice all{}, one{.kind = Kind::first, .count = 1}, three{.kind = Kind::first, .count = 3};
  const Gpus free{"GPU-b", "GPU-d"};
  EXPECT_EQ(*choose_free_gpus(std::nullopt, free, 4), free);
  EXPECT_EQ(*choose_free_gpus(all, free, 4), free);
  EXPECT_EQ(*choose_free_gpus(one, free, 4), Gpus{"GPU-b"});
  const auto few = choose_free_gpus(three, free, 5);
  ASSERT_FALSE(few);
  EXPECT_EQ(few.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(few.error().message,
            "3 GPUs are asked for, and other processes use 3 of the 5 of this machine (nvidia-smi lists them)");
  for (const auto& choice : {std::optional<DeviceChoice>{}, std::optional{all}, std::optional{one}}) {
    const auto none = choose_free_gpus(choice, {}, 4);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().message, "other processes use all 4 GPUs of this machine (nvidia-smi lists them)");
  }
}

class FindFreeGpus : public testing::Test {
 protected:
  void TearDown() override { ::unsetenv("FAKE_NVML"); }
  static Result<Gpus> of(const char* machine, const Gpus& gpus) {
    ::setenv("FAKE_NVML", machine, 1);
    return find_free_gpus(gpus, paths::build("tests/local/libfake_nvml.so"));
  }
};

TEST_F(FindFreeGpus, LeavesOutThoseOnWhichAProcessComputes) {
  const char* const machine = "GPU-a:0 GPU-b:1 GPU-c:0 GPU-d:7";
  EXPECT_EQ(*of(machine, {"0", "1", "2", "3"}), (Gpus{"GPU-a", "GPU-c"}));
  EXPECT_EQ(*of(machine, {"3", "2"}), Gpus{"GPU-c"});
  EXPECT_EQ(*of(machine, {"GPU-c", "GPU-b"}), Gpus{"GPU-c"}) << "by their UUIDs, as in CUDA_VISIBLE_DEVICES";
  EXPECT_EQ(*of(machine, {}), Gpus{});
}

TEST_F(FindFreeGpus, SaysWhatTheDriverAnswers) {
  const auto unknown = of("GPU-a:0", {"GPU-x"});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::not_found);
  EXPECT_EQ(unknown.error().message, "GPU GPU-x: Not Found");
  const auto broken = of("broken", {"0"});
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(broken.error().message, "nvmlInit_v2: Driver Not Loaded");
  const auto absent = find_free_gpus({"0"}, "libno-such-nvml.so.1");
  ASSERT_FALSE(absent);
  EXPECT_THAT(absent.error().message, testing::StartsWith("loading libno-such-nvml.so.1: "));
  const auto other = find_free_gpus({"0"}, "libc.so.6");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message, "libc.so.6 has no function nvmlInit_v2");
}

}  // namespace
}  // namespace trainyard::local
