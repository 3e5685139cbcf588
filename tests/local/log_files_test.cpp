#include "local/log_files.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard::local {
namespace {

using nlohmann::json;

json a_pod(const std::vector<std::string>& containers, bool is_of_a_job = true) {
  json pod{{"metadata", {{"name", "fit-c0de-2-1"}}}, {"spec", {{"containers", json::array()}}}};
  for (const std::string& name : containers) pod["spec"]["containers"].push_back({{"name", name}});
  if (is_of_a_job) pod["metadata"]["labels"] = {{"trainyard.dev/attempt", "2"}, {"trainyard.dev/rank", "1"}};
  return pod;
}

TEST(ContainerLog, IsTheRanksForTheWorkerAndNamesEveryOtherContainer) {
  struct Row {
    json pod;
    std::string container;
    std::string file;
  };
  const std::vector<Row> rows{
      {a_pod({"worker"}), "worker", "attempt-2/rank-1.log"},
      {a_pod({"main"}), "main", "attempt-2/rank-1.log"},
      {a_pod({"worker", "side"}), "worker", "attempt-2/rank-1.log"},
      {a_pod({"worker", "side"}), "side", "attempt-2/rank-1.side.log"},
      {a_pod({"worker"}), "init", "attempt-2/rank-1.init.log"},
      {a_pod({"first", "second"}), "first", "attempt-2/rank-1.first.log"},
      {a_pod({"worker"}, false), "worker", "fit-c0de-2-1.log"},
  };
  for (const char* label : {"trainyard.dev/attempt", "trainyard.dev/rank"}) {
    json pod = a_pod({"worker"});
    pod["metadata"]["labels"].erase(label);
    EXPECT_EQ(container_log("/runs/a", pod, "side"), "/runs/a/fit-c0de-2-1.side.log") << "without " << label;
  }
  for (const Row& row : rows) EXPECT_EQ(container_log("/runs/a", row.pod, row.container), "/runs/a/" + row.file);
}

TEST(ContainerLog, HasAFileForEachStream) {
  EXPECT_EQ(container_log("/a", a_pod({"worker"}), "worker", LogStream::output), "/a/attempt-2/rank-1.stdout.log");
  EXPECT_EQ(rank_log("/a", 2, 1, LogStream::error), "/a/attempt-2/rank-1.stderr.log");
  EXPECT_EQ(rank_log("/a", 2, 1), container_log("/a", a_pod({"worker"}), "worker"));
}

}  // namespace
}  // namespace trainyard::local
