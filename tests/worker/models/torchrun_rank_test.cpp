// trainyard-worker below PyTorch's own torchrun: its agent hosts the rendezvous store, and reads why a rank failed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "common/child_program.hpp"
#include "tests/paths/paths.hpp"

namespace trainyard {
namespace {

using testing::HasSubstr;

/// torchrun with two workers that get `arguments`; its standard error is part of the output.
ProgramEnd run_torchrun(const std::string& arguments) {
  const auto torchrun = std::filesystem::path{paths::torch_python()}.parent_path() / "torchrun";
  const auto end = run_program(
      {"/bin/sh", "-c",
       fmt::format("exec {} --standalone --no-python --nproc-per-node 2 {} {} 2>&1", torchrun.string(),
                   paths::program("trainyard-worker"), arguments)},
      std::chrono::minutes{3},
      {.environment = {{"OMP_NUM_THREADS", "1"},
                       {"CUDA_VISIBLE_DEVICES", "-1"},
                       {"TRAINYARD_LOG_FORMAT", "text"},
                       {"TRAINYARD_SPEC", R"({"training": {"model": {"name": "fashion_cnn"}, "maxSteps": 2, )"
                                          R"("batchSize": 8, "data": {"format": "synthetic", "samples": 64}}})"}}});
  EXPECT_TRUE(end) << end.error().message;
  return end.value_or(ProgramEnd{});
}

TEST(WorkerBelowTorchrun, TrainsAsAClientOfItsAgentsStore) {
  const ProgramEnd end = run_torchrun("");
  EXPECT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(end.output, HasSubstr("worldSize=2"));
}

TEST(WorkerBelowTorchrun, TellsItWhyARankFailed) {
  const ProgramEnd end = run_torchrun("--wrong");
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.output, HasSubstr("exitcode  : 93"));
  EXPECT_THAT(end.output, HasSubstr("traceback : InvalidEnvironment: '--wrong' is not an option"));
}

}  // namespace
}  // namespace trainyard
