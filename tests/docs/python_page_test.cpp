// docs/python.md says what the code does: its tables are compared with it, and its programs are run.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "operator/manager/progress_poller.hpp"
#include "operator/manager/rank_client.hpp"
#include "operator/manifest/objects.hpp"
#include "operator/plan/cause.hpp"
#include "tests/builders/an_observed.hpp"
#include "tests/docs/page.hpp"
#include "tests/docs/program.hpp"
#include "tests/fakes/free_port.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::docs {
namespace {

using builders::a_job;
using builders::an_observed;
using nlohmann::json;
using namespace std::chrono_literals;

constexpr std::string_view not_set = "not set";
constexpr auto patience = 60s;  // Only a broken program takes that long.

Page the_page() {
  return Page{"docs/python.md"};
}

/// The values of the worker's variables; empty for those that are known only in the pod.
using Variables = std::map<std::string, std::optional<std::string>>;

/// Pod 1 of the page's job.
Variables environment_of_pod(std::int64_t gpus_per_pod) {
  api::TrainingJob job = a_job()
                             .named("bert")
                             .without_training()
                             .container()
                             .checkpoint("file:///checkpoints/bert")
                             .gpus_per_pod(gpus_per_pod);
  job.status.attempt = 2;
  job.status.replicas.desired = job.spec.replicas;
  const json pod = manifest::build_pod(job, 1, manifest::kubernetes_traits(), {});
  Variables variables;
  for (const json& variable : pod.at("spec").at("containers").at(0).at("env")) {
    const std::string name = variable.at("name");
    variables[name] =
        variable.contains("value") ? std::optional{variable.at("value").get<std::string>()} : std::nullopt;
  }
  return variables;
}

TEST(PythonPage, SaysWhichEnvironmentAPodGets) {
  const auto rows = the_page().table("| variable | `gpusPerPod: 0` | `gpusPerPod: 8` |");
  ASSERT_FALSE(rows.empty());
  for (const auto& [column, gpus] : {std::pair{1U, 0}, std::pair{2U, 8}}) {
    Variables left = environment_of_pod(gpus);
    for (const auto& row : rows) {
      const std::string name = unquoted(row.at(0));
      const std::string& cell = row.at(column);
      if (cell == not_set) {
        EXPECT_FALSE(left.contains(name)) << name;
        continue;
      }
      ASSERT_TRUE(left.contains(name)) << name << ", gpusPerPod " << gpus;
      if (is_quoted(cell)) {
        EXPECT_EQ(left.at(name), unquoted(cell)) << name << ", gpusPerPod " << gpus;
      }
      left.erase(name);
    }
    for (const auto& [name, value] : left) ADD_FAILURE() << name << " is not in the table, gpusPerPod " << gpus;
  }
}

TEST(PythonPage, SaysWhatAPodOfOneGpuHasOtherThanOneWithoutGpus) {
  Variables with_one = environment_of_pod(1);
  EXPECT_EQ(with_one.at("TRAINYARD_GPUS_PER_POD"), "1");
  ASSERT_TRUE(with_one.contains("TRAINYARD_NODE_NAME"));
  with_one.erase("TRAINYARD_NODE_NAME");
  with_one["TRAINYARD_GPUS_PER_POD"] = "0";
  EXPECT_EQ(with_one, environment_of_pod(0));
}

std::string charged_to(const plan::AttemptEnd& end) {
  return end.cause == api::Cause::application ? "application" : "infrastructure";
}

TEST(PythonPage, SaysWhatExitCodesMean) {
  const auto rows = the_page().table("| code | what the program says by it |");
  std::set<int> codes;
  for (const auto& row : rows) {
    const int code = std::stoi(unquoted(row.at(0)));
    codes.insert(code);
    const plan::Observed observed = an_observed().ended(1, code);
    const auto end = plan::judge_members(observed, plan::members_of(observed), builders::later).end;
    ASSERT_EQ(end.has_value(), row.at(2) != "nothing") << "exit code " << code;
    if (!end) continue;
    EXPECT_EQ(charged_to(*end), row.at(2)) << "exit code " << code;
    EXPECT_EQ(end->is_final, row.at(3).starts_with("fails the job")) << "exit code " << code;
    EXPECT_EQ(!end->lost_nodes.empty(), row.at(3).ends_with("without this node")) << "exit code " << code;
  }
  EXPECT_EQ(codes, (std::set<int>{0, 1, 90, 91, 92, 93, 94, 95, 96, 97}));
}

plan::ProgressReport report_of(const std::string& field, const std::string& value) {
  const json answer{{"uid", "u"}, {"attempt", 2}, {field, json::parse(value)}};
  return manager::read_progress(answer.dump(), "u", 2, builders::start).value();
}

TEST(PythonPage, SaysWhichFieldsOfAStatusAreTaken) {
  const auto rows = the_page().table("| field | a value that is taken | a value that is ignored |");
  const plan::ProgressReport nothing{.attempt = 2};
  std::set<std::string> fields;
  for (const auto& row : rows) {
    const std::string field = unquoted(row.at(0));
    fields.insert(field);
    EXPECT_NE(report_of(field, unquoted(row.at(1))), nothing) << field << ": " << row.at(1);
    EXPECT_EQ(report_of(field, unquoted(row.at(2))), nothing) << field << ": " << row.at(2);
  }
  EXPECT_EQ(fields, (std::set<std::string>{"step", "totalSteps", "epoch", "loss", "accuracy", "samplesPerSecond",
                                           "etaSeconds", "checkpoint", "checkpointError", "waitingFor"}));
}

TEST(PythonPage, SaysHowOftenAStatusIsAskedFor) {
  const manager::PollerOptions options;
  EXPECT_EQ(options.interval, 2s);
  EXPECT_EQ(options.deadline, 1s);
  EXPECT_EQ(options.silent_interval_max, 30s);
}

/// A Python program of the page with lines of the test's own behind it.
class PythonProgram : public Program {
 public:
  PythonProgram(const std::string& mark, const std::string& rest, std::vector<std::string> environment) {
    std::string program;
    for (const std::string& block : the_page().blocks("python")) {
      if (block.find(mark) != std::string::npos) program = block;
    }
    EXPECT_NE(program, "") << "no program of the page has " << mark;
    environment.emplace_back("PATH=/usr/bin:/bin");
    start({"python3", "-u", folder().write("program.py", program + rest)}, std::move(environment));
  }
};

TEST(PythonPage, ShowsAStatusServerThatTheOperatorUnderstands) {
  const std::uint16_t port = fakes::free_port();
  const PythonProgram program{
      "http.server",
      "progress.update(step=120, totalSteps=400, loss=0.25)\nthreading.Event().wait()\n",
      {"TRAINYARD_JOB_UID=u", "TRAINYARD_ATTEMPT=2", fmt::format("TRAINYARD_STATUS_PORT={}", port)}};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::optional<plan::ProgressReport> report;
  while ((!report || !report->step) && std::chrono::steady_clock::now() < deadline) {
    const auto answer = manager::call_rank(fmt::format("http://127.0.0.1:{}/status", port), std::nullopt, patience);
    if (answer) {
      report = manager::read_progress(answer->body, "u", 2, builders::start).value();
    } else {
      ::poll(nullptr, 0, 5);
    }
  }
  ASSERT_TRUE(report) << program.out();
  EXPECT_EQ(*report, (plan::ProgressReport{.attempt = 2, .step = 120, .total_steps = 400, .loss = 0.25}));
}

TEST(PythonPage, ShowsHowAnExitCodeGetsThroughTorchrun) {
  const fakes::TemporaryFolder folder;
  const std::string message = folder.file("message").string();
  PythonProgram program{
      "def end(code", "end(93, 'there is no such data set')\n", {"TRAINYARD_TERMINATION_LOG=" + message}};
  EXPECT_EQ(program.wait(), 93) << program.out();
  const plan::Observed observed = an_observed().ended(1, 1, fakes::text_of(message));
  const auto end = plan::judge_members(observed, plan::members_of(observed), builders::later).end;
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->is_final);
  EXPECT_EQ(end->message, "exit code 93: there is no such data set");
}

}  // namespace
}  // namespace trainyard::docs
