#include "worker/dist/chosen_gpus.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace trainyard::dist {
namespace {

using api::Accelerator;
using Kind = api::DeviceChoice::Kind;
using Gpus = std::vector<std::int64_t>;

const api::DeviceChoice all{};
const api::DeviceChoice two{.kind = Kind::first, .count = 2};
const api::DeviceChoice last_and_second{.kind = Kind::listed, .count = 0, .indices = {3, 1}};
const api::DeviceChoice third{.kind = Kind::listed, .count = 0, .indices = {2}};

DeviceRequest asks_for(std::optional<api::DeviceChoice> devices, std::int64_t ranks) {
  return {.spec = {.accelerator = Accelerator::by_machine, .devices = std::move(devices)},
          .ranks = ranks,
          .node = "node n1"};
}

DeviceRequest for_one_rank(DeviceRequest request) {
  request.is_of_one_rank = true;
  return request;
}

TEST(ChooseGpusOfNode, TakesThoseThatAreAskedFor) {
  struct Row {
    DeviceRequest request;
    std::int64_t gpus;
    Gpus wanted;
  };
  const std::vector<Row> rows{
      {asks_for({}, 2), 4, {0, 1, 2, 3}},
      {asks_for(all, 4), 4, {0, 1, 2, 3}},
      {asks_for(two, 2), 4, {0, 1}},
      {asks_for(last_and_second, 2), 4, {3, 1}},
      {asks_for(third, 1), 3, {2}},
      {for_one_rank(asks_for(two, 1)), 4, {0, 1}},
      {for_one_rank(asks_for(all, 1)), 3, {0, 1, 2}},
      {for_one_rank(asks_for(last_and_second, 1)), 4, {3, 1}},
      {asks_for({}, 3), 0, {}},
      {asks_for(two, 2), 0, {}},
  };
  for (const auto& [request, gpus, wanted] : rows) {
    const auto chosen = choose_gpus_of_node(request, gpus);
    ASSERT_TRUE(chosen) << chosen.error().message;
    EXPECT_EQ(*chosen, wanted);
  }
}

TEST(ChooseGpusOfNode, NamesWhatIsAskedForAndWhatThereIs) {
  struct Row {
    DeviceRequest request;
    std::int64_t gpus;
    std::string sentence;
  };
  DeviceRequest on_a_gpu = asks_for({}, 2);
  on_a_gpu.spec.accelerator = Accelerator::gpu;
  const std::vector<Row> rows{
      {on_a_gpu, 0,
       "training.accelerator is gpu, but node n1 has no GPU for its ranks: start them where GPUs are, or name cpu or "
       "auto"},
      {asks_for(two, 1), 0,
       "training.devices asks for 2 devices, but on node n1 1 rank trains on the CPU: write 1, or leave devices out"},
      {asks_for(last_and_second, 2), 0,
       "training.devices asks for GPUs 3, 1, but on node n1 2 ranks train on the CPU: write 2, or leave devices out"},
      {asks_for(all, 2), 0,
       "training.devices asks for all GPUs, but on node n1 2 ranks train on the CPU: write 2, or leave devices out"},
      {asks_for(last_and_second, 2), 3,
       "training.devices asks for GPUs 3, 1, but node n1 has 3 GPUs, counted from 0: name those that it has"},
      {asks_for(third, 1), 1,
       "training.devices asks for GPU 2, but node n1 has 1 GPU, counted from 0: name those that it has"},
      {for_one_rank(asks_for(two, 1)), 1,
       "training.devices asks for 2 devices, but node n1 has 1 GPU, counted from 0: name those that it has"},
      {asks_for(two, 1), 4,
       "training.devices asks for 2 devices, which are 2 of node n1, but 1 rank was started there, and each trains on "
       "one: start 2 ranks, or leave devices out"},
      {asks_for(all, 2), 4,
       "training.devices asks for all GPUs, which are 4 of node n1, but 2 ranks were started there, and each trains on "
       "one: start 4 ranks, or leave devices out"},
  };
  for (const auto& [request, gpus, sentence] : rows) {
    const auto chosen = choose_gpus_of_node(request, gpus);
    ASSERT_FALSE(chosen) << sentence;
    EXPECT_EQ(chosen.error().kind, ErrorKind::invalid) << sentence;
    EXPECT_EQ(chosen.error().message, sentence);
  }
}

}  // namespace
}  // namespace trainyard::dist
