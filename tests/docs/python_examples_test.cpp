// The commands of docs/python.md, followed to the letter: the Python examples are killed, asked to stop, and resume.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "operator/manifest/pod_environment.hpp"
#include "tests/builders/a_job.hpp"
#include "tests/docs/page.hpp"
#include "tests/docs/program.hpp"
#include "tests/fakes/free_port.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"
#include "tests/skips.hpp"

namespace trainyard::docs {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

/// A program of the page, whose folder is its home too; the repository's examples are there.
class ExampleRun : public Program {
 public:
  ExampleRun(const std::vector<std::string>& arguments, std::vector<std::string> environment) {
    std::filesystem::create_directory_symlink(paths::source("examples"), folder().file("examples"));
    const std::string torch_folder = std::filesystem::path{paths::torch_python()}.parent_path();
    environment.push_back(fmt::format("PATH={}:{}:/usr/bin:/bin", torch_folder, paths::build("bin")));
    environment.push_back("HOME=" + folder().path());
    start(arguments, std::move(environment));
  }
  [[nodiscard]] std::string text_of(const std::string& name) const { return fakes::text_of(folder().file(name)); }
};

bool has_packages() {
  const std::string finds =
      " -c 'import importlib.util as u; exit(not all(map(u.find_spec,"
      " [\"torch\", \"lightning\", \"transformers\", \"accelerate\"])))' 2>/dev/null";
  return std::system((paths::torch_python() + finds).c_str()) == 0;
}

constexpr std::string_view no_packages =
    "Python's torch, lightning, transformers or accelerate is missing: scripts/setup test installs them";

/// The steps in the run's lines "step N...", in order.
std::vector<int> steps_printed(const std::string& out) {
  std::vector<int> steps;
  std::istringstream lines{out};
  const std::regex step{"^step ([0-9]+).* on 2 ranks$"};
  std::smatch found;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, found, step)) steps.push_back(std::stoi(found[1]));
  }
  return steps;
}

/// How often torchrun itself aborted after its processes had ended, or one of these at its end. PyTorch 2.11 does so
/// now and then on a busy machine; the restart that follows has nothing left to train.
std::ptrdiff_t aborts_of_torchrun(const std::string& out) {
  const std::regex abort{
      "ended: rank [01] failed: exit code (134: .*terminate called without an active exception"
      "|1: .*Signal 6 \\(SIGABRT\\) received)"};
  return std::distance(std::sregex_iterator{out.begin(), out.end(), abort}, std::sregex_iterator{});
}

std::vector<std::string> in_a_shell(const std::string& commands) {
  return {"bash", "-euo", "pipefail", "-c", commands};
}

/// `environment`, and that each process computes with one thread on the CPU.
std::vector<std::string> on_the_cpu(std::vector<std::string> environment = {}) {
  environment.insert(environment.end(), {"OMP_NUM_THREADS=1", "CUDA_VISIBLE_DEVICES=-1"});
  return environment;
}

TEST(PythonExamples, ResumeAfterAKillAndAfterSigterm) {
  if (!has_packages()) return tests::cannot_run(std::string{no_packages});
  std::map<std::string, std::unique_ptr<ExampleRun>> runs;
  for (const std::string& commands : Page{"docs/python.md"}.blocks("sh")) {
    std::smatch found;
    if (!std::regex_search(commands, found, std::regex{"examples/([a-z-]+)\\.yaml"})) continue;
    // All jobs at once: while one pauses before its restart, others import torch.
    runs[found[1]] = std::make_unique<ExampleRun>(in_a_shell(commands),
                                                  on_the_cpu({"PYTHONPATH=" + paths::source("tests/docs/killed"),
                                                              "PYTHONDONTWRITEBYTECODE=1", "HF_HUB_OFFLINE=1"}));
  }
  const std::vector<int> expected{10,  20, 30, 40, 50,
                                  60,  70, 80, 90, 100,  // saved at 50; killed while it saved at 100
                                  60,  70, 80, 90, 100,  // asked to stop at 100, and all did at 101
                                  110, 120};
  for (const auto& [name, run] : runs) {
    SCOPED_TRACE(name);
    EXPECT_EQ(run->wait(), 0) << run->out();
    const std::string out = run->out();
    EXPECT_EQ(steps_printed(out), expected) << out;
    EXPECT_THAT(out, HasSubstr("resumes after step 50\n"));
    EXPECT_THAT(out, ContainsRegex("Attempt 2 ended: rank [01] was stopped: exit code 91: preempted after step 101;"));
    EXPECT_THAT(out, HasSubstr("resumes after step 101\n"));
    EXPECT_THAT(out, HasSubstr(fmt::format("after {} restarts", 2 + aborts_of_torchrun(out)))) << out;
  }
  EXPECT_EQ(runs.size(), 3U);
  EXPECT_TRUE(runs.contains("torchrun") && runs.contains("lightning") && runs.contains("hugging-face"));
}

/// The operator's variables of a pod on this machine, whose rank 0 listens on `port`.
std::vector<std::string> variables_of_pod(const api::TrainingJob& job, std::int64_t pod, std::uint16_t port) {
  const manifest::ClusterTraits traits{.address_of = [&](const manifest::PodPlace&) {
    return manifest::PodAddress{.host = "127.0.0.1", .master_port = port};
  }};
  std::vector<std::string> variables;
  for (const auto& [name, value] : manifest::pod_environment(job, job.spec.replicas, pod, 30, traits)) {
    variables.push_back(fmt::format("{}={}", name, value));
  }
  return variables;
}

// On the CPU in place of eight GPUs.
TEST(PythonExamples, EightProcessesOfAScriptMeet) {
  if (!has_packages()) return tests::cannot_run(std::string{no_packages});
  const std::string train = R"(
import sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
size = torch.ones(1)
dist.all_reduce(size)
print(f"rank {dist.get_rank()} of {int(size)}", *sys.argv[1:])
dist.destroy_process_group()
)";
  const auto blocks = Page{"docs/python.md"}.blocks("sh");
  const auto commands =
      std::ranges::find_if(blocks, [](const std::string& b) { return b.find("--nproc 8") != b.npos; });
  ASSERT_NE(commands, blocks.end());
  ExampleRun run{in_a_shell("cat >train.py <<'PYTHON'" + train + "PYTHON\n" + *commands), on_the_cpu()};
  EXPECT_EQ(run.wait(), 0) << run.out();
  for (int rank = 0; rank < 8; ++rank)
    EXPECT_THAT(run.out(), HasSubstr(fmt::format("rank {} of 8 --epochs 3\n", rank)));
}

TEST(PythonExamples, TorchrunOnACpuPodStartsAsManyProcessesAsItIsTold) {
  if (!has_packages()) return tests::cannot_run(std::string{no_packages});
  const std::string command = "torchrun --nproc-per-node 4";
  EXPECT_THAT(fakes::text_of(paths::source("docs/python.md")), HasSubstr("`" + command + "`"));
  const api::TrainingJob job = builders::a_job().named("bert").replicas(1).without_training().container();
  ExampleRun run{in_a_shell(command + " --no-python sh -c 'echo rank $RANK of $WORLD_SIZE'"),
                 on_the_cpu(variables_of_pod(job, 0, fakes::free_port()))};
  EXPECT_EQ(run.wait(), 0) << run.out();
  for (int rank = 0; rank < 4; ++rank) EXPECT_THAT(run.out(), HasSubstr(fmt::format("rank {} of 4\n", rank)));
}

TEST(PythonExamples, TorchrunGivesItsProcessesTheVariablesOfThePage) {
  if (!has_packages()) return tests::cannot_run(std::string{no_packages});
  const std::uint16_t port = fakes::free_port();
  std::vector<std::unique_ptr<ExampleRun>> pods;
  for (const std::int64_t pod : {0, 1}) {
    api::TrainingJob job = builders::a_job().named("bert").without_training().container().gpus_per_pod(8);
    job.status.attempt = 2;
    const std::string write =
        "import json, os; json.dump(dict(os.environ), open(os.environ['HOME'] + '/rank-' + os.environ['RANK'], 'w'))";
    pods.push_back(std::make_unique<ExampleRun>(
        std::vector<std::string>{"torchrun", "--no-python", "/usr/bin/python3", "-c", write},
        variables_of_pod(job, pod, port)));
  }
  for (const auto& pod : pods) EXPECT_EQ(pod->wait(), 0) << pod->out();
  const auto told = nlohmann::json::parse(pods.at(1)->text_of("rank-11")).get<std::map<std::string, std::string>>();
  const auto rows = Page{"docs/python.md"}.table("| variable | value |");
  EXPECT_GE(rows.size(), 11U);
  for (const auto& row : rows) {
    const std::string name = unquoted(row.at(0));
    ASSERT_TRUE(told.contains(name)) << name;
    EXPECT_EQ(told.at(name), unquoted(row.at(1))) << name;
  }
}

}  // namespace
}  // namespace trainyard::docs
