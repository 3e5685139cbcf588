#include "local/gpus.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::local {
namespace {

using Gpus = std::vector<std::string>;

TEST(FindGpus, CountsDeviceFilesUnlessVariablesNameTheGpus) {
  const fakes::TemporaryFolder devices;
  const std::string folder = devices.path();
  EXPECT_EQ(find_gpus({}, folder), Gpus{});
  EXPECT_EQ(find_gpus("0,1", folder), Gpus{}) << "a variable makes no devices";
  for (const auto* name : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia", "null"}) devices.write(name, "");
  EXPECT_EQ(find_gpus({}, folder), (Gpus{"0", "1"}));
  EXPECT_EQ(find_gpus("1", folder), Gpus{"1"});
  EXPECT_EQ(find_gpus("GPU-8f2a,MIG-1", folder), (Gpus{"GPU-8f2a", "MIG-1"}));
  EXPECT_EQ(find_gpus("", folder), Gpus{});
  EXPECT_EQ(find_gpus("0,-1,1", folder), Gpus{"0"});
  EXPECT_EQ(find_gpus({}, folder + "/absent"), Gpus{});
}

TEST(WithoutTaken, CountsANameThatIsThereTwiceAsTwoGpus) {
  EXPECT_EQ(without_taken({"0", "0", "1"}, {"0"}), (Gpus{"0", "1"}));
  EXPECT_EQ(without_taken({"0", "0"}, {"0", "0"}), Gpus{});
  EXPECT_EQ(without_taken({"0", "1"}, {}), (Gpus{"0", "1"}));
}

}  // namespace
}  // namespace trainyard::local
