#include "worker/clean_up/task.hpp"

#include <gmock/gmock.h>

#include <map>
#include <tuple>

#include "checkpoint/format/claim.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/memory_store.hpp"

namespace trainyard::clean_up {
namespace {

using testing::HasSubstr;

using Variables = std::map<std::string, std::string, std::less<>>;

const Variables good{{"TRAINYARD_JOB", "smoke"},
                     {"TRAINYARD_NAMESPACE", "research"},
                     {"TRAINYARD_JOB_UID", "uid-a"},
                     {"TRAINYARD_ATTEMPT", "3"},
                     {"TRAINYARD_SPEC", R"({"checkpoint": {"uri": "s3://models/smoke"}})"}};

rank::Environment environment_of(Variables variables) {
  return [variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional{found->second};
  };
}

TEST(ReadTask, KnowsWhoseCheckpointsAreMeantAndWhereTheyAre) {
  const auto task = read_task(environment_of(good));
  ASSERT_TRUE(task) << task.error().message;
  EXPECT_EQ(task->checkpoint.uri, "s3://models/smoke");
  EXPECT_EQ(task->identity,
            (checkpoint::Identity{.job = "research/smoke", .job_uid = "uid-a", .attempt = 3, .fingerprint = {}}));
}

TEST(ReadTask, TakesTheFirstAttemptWhereNoneIsNamed) {
  Variables variables = good;
  variables.erase("TRAINYARD_ATTEMPT");
  const auto task = read_task(environment_of(variables));
  ASSERT_TRUE(task) << task.error().message;
  EXPECT_EQ(task->identity.attempt, 1);
}

TEST(ReadTask, HeedsNothingThatATemplateSaysOfRanks) {
  const std::vector<Variables> of_ranks{{{"WORLD_SIZE", "4"}},
                                        {{"RANK", "3"}, {"WORLD_SIZE", "2"}},
                                        {{"NODE_RANK", "first"}},
                                        {{"MASTER_PORT", "0"}},
                                        {{"LOCAL_WORLD_SIZE", "8"}}};
  for (Variables variables : of_ranks) {
    const std::string name = variables.begin()->first;
    variables.insert(good.begin(), good.end());
    const auto task = read_task(environment_of(variables));
    ASSERT_TRUE(task) << name << ": " << task.error().message;
    EXPECT_EQ(task->identity.attempt, 3) << name;
  }
}

TEST(ReadTask, NamesWhatIsMissing) {
  const std::vector<std::tuple<std::string, std::string, std::string>> cases{
      {"TRAINYARD_JOB_UID", "", "TRAINYARD_JOB_UID is not set"},
      {"TRAINYARD_ATTEMPT", "third", "TRAINYARD_ATTEMPT"},
      {"TRAINYARD_ATTEMPT", "0", "TRAINYARD_ATTEMPT is 0, but must be at least 1"},
      {"TRAINYARD_SPEC", "[]", "TRAINYARD_SPEC is not a JSON object with the field `checkpoint`"},
      {"TRAINYARD_SPEC", R"({"checkpoint": {"uri": "s3://m"}} x)", "TRAINYARD_SPEC is not a JSON object"},
      {"TRAINYARD_SPEC", "", "TRAINYARD_SPEC is not a JSON object with the field `checkpoint`"},
      {"TRAINYARD_SPEC", R"({"training": {}})", "TRAINYARD_SPEC is not a JSON object with the field `checkpoint`"},
      {"TRAINYARD_SPEC", R"({"checkpoint": {}})", "spec.checkpoint.uri: must be given"}};
  for (const auto& [name, value, says] : cases) {
    Variables variables = good;
    variables[name] = value;
    const auto task = read_task(environment_of(value.empty() ? (variables.erase(name), variables) : variables));
    ASSERT_FALSE(task) << name;
    EXPECT_EQ(task.error().kind, ErrorKind::invalid) << name;
    EXPECT_THAT(task.error().message, HasSubstr(says));
  }
}

/// Runs the clean-up with a store whose call `call` fails with `kind`, and returns how it ends.
rank::RankEnd end_with(std::string_view call, ErrorKind kind) {
  static fakes::MemoryObjects objects;
  return run(environment_of(good), fakes::FakeClock{}, [&](const auto&) -> Result<std::unique_ptr<storage::Store>> {
    return std::make_unique<fakes::FaultyStore>(
        std::make_unique<fakes::MemoryStore>(objects),
        [=](std::string_view asked, std::string_view, auto) -> std::optional<Error> {
          if (asked != call) return std::nullopt;
          return Error{.kind = kind, .message = "the store says no", .retry_after = {}};
        });
  });
}

TEST(Run, SaysWhetherAnotherTryMayHelp) {
  const std::vector<std::tuple<std::string, ErrorKind, int, std::string>> cases{
      {"none", ErrorKind::internal, 0, "Completed"},          {"probe", ErrorKind::not_found, 93, "CleanUpRefused"},
      {"probe", ErrorKind::forbidden, 96, "StorageFailed"},   {"probe", ErrorKind::unavailable, 96, "StorageFailed"},
      {"list", ErrorKind::unauthorized, 96, "StorageFailed"}, {"list", ErrorKind::not_found, 96, "StorageFailed"},
      {"list", ErrorKind::timeout, 96, "StorageFailed"},      {"probe", ErrorKind::invalid, 93, "CleanUpRefused"},
      {"list", ErrorKind::invalid, 93, "CleanUpRefused"}};
  for (const auto& [call, kind, exit_code, reason] : cases) {
    const rank::RankEnd end = end_with(call, kind);
    EXPECT_EQ(end.exit_code, exit_code) << call << " " << to_string(kind);
    EXPECT_EQ(end.reason, reason);
    EXPECT_THAT(end.message,
                HasSubstr(exit_code == 0 ? "0 checkpoints and 0 snapshots were removed" : "the store says no"));
  }
}

TEST(Run, RefusesASpecOrAUriThatIsWrong) {
  Variables variables = good;
  variables.erase("TRAINYARD_SPEC");
  const auto nobody = [](const auto&) -> Result<std::unique_ptr<storage::Store>> {
    return fail(ErrorKind::invalid, "no such scheme");
  };
  EXPECT_EQ(run(environment_of(variables), fakes::FakeClock{}, nobody).exit_code, 93);
  EXPECT_EQ(run(environment_of(good), fakes::FakeClock{}, nobody),
            (rank::RankEnd{.exit_code = 93, .reason = "CleanUpRefused", .message = "no such scheme", .culprit = {}}));
}

}  // namespace
}  // namespace trainyard::clean_up
