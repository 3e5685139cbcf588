#include "local/process_kubelet.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <functional>
#include <optional>

#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::local {
namespace {

using namespace std::chrono_literals;
using fakes::text_of;

class ProcessKubeletTest : public testing::Test {
 protected:
  ProcessKubeletTest() {
    options_.log_folder = folder_.file("logs");
    options_.inherited = {{"PATH", "/usr/bin:/bin"}, {"FOLDER", folder_.path()}};
    options_.secrets = {{"s3", {{"KEY", "k"}}}};
  }
  void start() { kubelet_ = std::make_unique<ProcessKubelet>(api_, clock_, options_); }

  static json shell_pod(const std::string& script, const std::string& name = "p-0") {
    return {{"metadata", {{"name", name}}},
            {"spec", {{"containers", json::array({{{"name", "worker"}, {"command", {"/bin/sh", "-c", script}}}})}}}};
  }
  void create(const json& pod) {
    const auto created = api_.create(kube::pods, "default", pod);
    ASSERT_TRUE(created) << created.error().message;
  }
  /// The pod as soon as `condition` holds for one of its versions after `since`; null after a generous time limit.
  json await(const std::function<bool(const json&)>& condition, const std::string& name = "p-0",
             const std::string& since = {}) {
    std::optional<json> found;
    std::stop_source stop;
    const auto ended = api_.watch(
        kube::pods, {.resource_version = since, .timeout = 60s},
        [&](const kube::WatchEvent& event) {
          if (event.type == kube::WatchEventType::bookmark || event.object["metadata"]["name"] != name || found) return;
          if (!condition(event.type == kube::WatchEventType::deleted ? json{} : event.object)) return;
          found = event.object;
          stop.request_stop();
        },
        stop.get_token());
    EXPECT_TRUE(found) << "waited in vain";
    return found.value_or(json{});
  }
  json await_phase(const std::string& phase, const std::string& name = "p-0") {
    return await([&](const json& pod) { return pod.is_object() && pod["status"].value("phase", "") == phase; }, name);
  }
  // Polls, since a watch has no event of a pod that is gone before the watch begins.
  void await_deletion(const std::string& name = "p-0") {
    EXPECT_TRUE(comes_true([&] { return !api_.get(kube::pods, "default", name); })) << name << " is still there";
  }
  /// False after a generous time limit.
  static bool comes_true(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (!condition() && std::chrono::steady_clock::now() < deadline) ::usleep(1000);
    return condition();
  }
  static json terminated(const json& pod) { return pod["status"]["containerStatuses"][0]["state"]["terminated"]; }

  fakes::TemporaryFolder folder_;
  SystemClock clock_;
  MemoryApi api_{clock_};
  ProcessKubeletOptions options_;
  std::unique_ptr<ProcessKubelet> kubelet_;
};

TEST_F(ProcessKubeletTest, RunsAPodToItsEndAndWritesEachPhase) {
  start();
  create(shell_pod("echo hello; while ! [ -e $FOLDER/go ]; do sleep 0.01; done; echo done >&2; exit 7"));
  const json running = await_phase("Running");
  EXPECT_EQ(running["spec"]["nodeName"], "local");
  EXPECT_EQ(running["status"]["podIP"], "127.0.0.1");
  EXPECT_EQ(running["status"]["containerStatuses"][0]["ready"], true);
  folder_.write("go", "");
  const json ended = await_phase("Failed");
  EXPECT_EQ(terminated(ended)["exitCode"], 7);
  EXPECT_EQ(terminated(ended)["reason"], "Error");
  EXPECT_EQ(text_of(folder_.file("logs") / "p-0.log"), "hello\ndone\n");
}

TEST_F(ProcessKubeletTest, ASignalIsReportedAs128PlusItsNumber) {
  start();
  create(shell_pod("kill -KILL $$$$"));
  const json ended = terminated(await_phase("Failed"));
  EXPECT_EQ(ended["exitCode"], 137);
  EXPECT_EQ(ended["signal"], 9);
}

TEST_F(ProcessKubeletTest, TheTerminationMessageIsTheFilesOrElseTheLogsEnd) {
  start();
  create(shell_pod("echo log; printf said >$TRAINYARD_TERMINATION_LOG; exit 1", "said"));
  EXPECT_EQ(terminated(await_phase("Failed", "said"))["message"], "said");
  json silent = shell_pod("echo last words; exit 1", "silent");
  silent["spec"]["containers"][0]["terminationMessagePolicy"] = "FallbackToLogsOnError";
  create(silent);
  EXPECT_EQ(terminated(await_phase("Failed", "silent"))["message"], "last words");
  create(shell_pod("echo last words; exit 1", "mute"));
  EXPECT_FALSE(terminated(await_phase("Failed", "mute")).contains("message"));
  json successful = shell_pod("echo last words", "successful");
  successful["spec"]["containers"][0]["terminationMessagePolicy"] = "FallbackToLogsOnError";
  create(successful);
  EXPECT_FALSE(terminated(await_phase("Succeeded", "successful")).contains("message")) << "it is for errors";
}

TEST_F(ProcessKubeletTest, PodsOfAJobLogByAttemptAndRank) {
  start();
  json pod = shell_pod("echo $RANK; echo bad >&2");
  pod["metadata"]["labels"] = {{"trainyard.dev/attempt", "2"}, {"trainyard.dev/rank", "1"}};
  pod["spec"]["containers"][0]["env"] = json::parse(
      R"([{"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['trainyard.dev/rank']"}}}])");
  create(pod);
  await_phase("Succeeded");
  EXPECT_EQ(text_of(folder_.file("logs") / "attempt-2" / "rank-1.log"), "1\nbad\n");
}

TEST_F(ProcessKubeletTest, StreamsMayBeKeptApart) {
  options_.has_separate_streams = true;
  start();
  create(shell_pod("echo out; echo err >&2"));
  await_phase("Succeeded");
  EXPECT_EQ(text_of(folder_.file("logs") / "p-0.stdout.log"), "out\n");
  EXPECT_EQ(text_of(folder_.file("logs") / "p-0.stderr.log"), "err\n");
}

TEST_F(ProcessKubeletTest, WhenStreamsAreApartTheMessageIsStandardErrorsEnd) {
  options_.has_separate_streams = true;
  start();
  const auto message_of = [&](const std::string& name, const std::string& script) {
    json pod = shell_pod(script, name);
    pod["spec"]["containers"][0]["terminationMessagePolicy"] = "FallbackToLogsOnError";
    create(pod);
    return terminated(await_phase("Failed", name)).value("message", "none");
  };
  EXPECT_EQ(message_of("both", "echo progress; echo no luck >&2; exit 1"), "no luck");
  EXPECT_EQ(message_of("silent", "echo progress; exit 1"), "none");
}

TEST_F(ProcessKubeletTest, AProgramThatCannotBeStartedFailsThePodAsAContainerRuntimeDoes) {
  start();
  json pod = shell_pod("");
  pod["spec"]["containers"][0]["command"] = {"/no/such/program"};
  create(pod);
  const json ended = terminated(await_phase("Failed"));
  EXPECT_EQ(ended["exitCode"], 128);
  EXPECT_EQ(ended["reason"], "StartError");
  EXPECT_EQ(ended["message"], "exec /no/such/program: No such file or directory");
}

TEST_F(ProcessKubeletTest, AMissingSecretKeepsThePodWaitingAndIsNamed) {
  start();
  json pod = shell_pod("true");
  pod["spec"]["containers"][0]["envFrom"] = json::parse(R"([{"secretRef": {"name": "gone"}}])");
  create(pod);
  const auto waiting = [](const json& object) {
    return object.value("/status/containerStatuses/0/state/waiting/reason"_json_pointer, "") ==
           "CreateContainerConfigError";
  };
  const json found = await(waiting);
  EXPECT_EQ(found["status"]["phase"], "Pending");
  EXPECT_EQ(found["status"]["containerStatuses"][0]["state"]["waiting"]["message"], "secret \"gone\" not found");
  ASSERT_TRUE(api_.remove(kube::pods, "default", "p-0"));
  await_deletion();
}

TEST_F(ProcessKubeletTest, ADeletedPodGetsSigtermAndIsGoneWhenItHasEnded) {
  start();
  create(shell_pod("trap 'echo asked; exit 91' TERM; echo up; while :; do sleep 0.01; done"));
  await_phase("Running");
  // The shell has set its trap once it has printed its first line.
  ASSERT_TRUE(comes_true([&] { return !text_of(folder_.file("logs") / "p-0.log").empty(); }));
  const std::string version = api_.list(kube::pods, {})->resource_version;
  ASSERT_TRUE(api_.remove(kube::pods, "default", "p-0"));
  // Watches from a version before the deletion, since the pod may be gone before the watch begins.
  const auto has_failed = [](const json& pod) {
    return pod.is_object() && pod["status"].value("phase", "") == "Failed";
  };
  const json last = await(has_failed, "p-0", version);
  EXPECT_EQ(terminated(last)["exitCode"], 91);
  await_deletion();
  EXPECT_THAT(text_of(folder_.file("logs") / "p-0.log"), testing::EndsWith("asked\n"));
}

TEST_F(ProcessKubeletTest, APodThatIgnoresSigtermIsKilledAfterItsGrace) {
  start();
  create(shell_pod("trap '' TERM; echo $$$$ >$FOLDER/pid; while :; do sleep 0.1; done"));
  await_phase("Running");
  ASSERT_TRUE(comes_true([&] { return text_of(folder_.file("pid")).ends_with('\n'); }));
  const pid_t pid = std::stoi(text_of(folder_.file("pid")));
  ASSERT_TRUE(api_.remove(kube::pods, "default", "p-0", {.uid = {}, .grace_period_seconds = 1}));
  await_deletion();
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST_F(ProcessKubeletTest, APodDeletedWithoutGraceIsKilledAtOnce) {
  start();
  create(shell_pod("trap '' TERM; echo $$$$ >$FOLDER/pid; while :; do sleep 0.1; done"));
  await_phase("Running");
  ASSERT_TRUE(comes_true([&] { return text_of(folder_.file("pid")).ends_with('\n'); }));
  const pid_t pid = std::stoi(text_of(folder_.file("pid")));
  ASSERT_TRUE(api_.remove(kube::pods, "default", "p-0", {.uid = {}, .grace_period_seconds = 0}));
  EXPECT_TRUE(comes_true([&] { return ::kill(pid, 0) != 0; }));
}

TEST_F(ProcessKubeletTest, InitContainersRunBeforeTheOthersAndTheirFailureIsThePods) {
  start();
  json pod = shell_pod("cat $FOLDER/order");
  pod["spec"]["initContainers"] =
      json::array({{{"name", "one"}, {"command", {"/bin/sh", "-c", "sleep 0.05; echo one >>$FOLDER/order"}}},
                   {{"name", "two"}, {"command", {"/bin/sh", "-c", "echo two >>$FOLDER/order"}}}});
  create(pod);
  await_phase("Succeeded");
  EXPECT_EQ(text_of(folder_.file("logs") / "p-0.log"), "one\ntwo\n");

  json failing = shell_pod("echo never", "failing");
  failing["spec"]["initContainers"] = json::array({{{"name", "one"}, {"command", {"/bin/false"}}}});
  create(failing);
  EXPECT_EQ(await_phase("Failed", "failing")["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"],
            1);
  EXPECT_FALSE(std::filesystem::exists(folder_.file("logs") / "failing.log"));
}

class SidecarTest : public ProcessKubeletTest {
 protected:
  /// A pod whose first init container is a sidecar that runs `sidecar`.
  static json pod_with(const std::string& sidecar, const std::string& worker) {
    json pod = shell_pod(worker);
    pod["spec"]["initContainers"] = json::array(
        {{{"name", "side"}, {"restartPolicy", "Always"}, {"command", {"/bin/sh", "-c", sidecar}}},
         {{"name", "init"}, {"command", {"/bin/sh", "-c", "while ! [ -e $FOLDER/side ]; do sleep 0.01; done"}}}});
    return pod;
  }
};

TEST_F(SidecarTest, StartsBeforeTheOthersStaysAndIsAskedToEndAfterThem) {
  start();
  create(
      pod_with("trap 'echo asked; [ -e $FOLDER/worked ] && echo last; exit 143' TERM; touch $FOLDER/side; "
               "while :; do sleep 0.01; done",
               "touch $FOLDER/worked"));
  const json pod = await_phase("Succeeded");
  EXPECT_EQ(pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 143);
  EXPECT_EQ(pod["status"]["initContainerStatuses"][0]["restartCount"], 0);
  EXPECT_THAT(text_of(folder_.file("logs") / "p-0.side.log"), testing::EndsWith("asked\nlast\n"));
}

TEST_F(SidecarTest, IsStartedAgainWhenItEndsAndItsEndDecidesNothing) {
  start();
  create(
      pod_with("touch $FOLDER/side; [ -e $FOLDER/again ] || { touch $FOLDER/again; exit 7; }; touch $FOLDER/back; "
               "while :; do sleep 0.01; done",
               "while ! [ -e $FOLDER/back ]; do sleep 0.01; done"));
  const json side = await_phase("Succeeded")["status"]["initContainerStatuses"][0];
  EXPECT_EQ(side["restartCount"], 1);
  EXPECT_EQ(side["lastState"]["terminated"]["exitCode"], 7);
}

TEST_F(SidecarTest, ThatIgnoresSigtermIsKilledAfterThePodsGrace) {
  start();
  json pod = pod_with("trap '' TERM; touch $FOLDER/side; while :; do sleep 0.01; done", "exit 3");
  pod["spec"]["terminationGracePeriodSeconds"] = 0;
  create(pod);
  const json ended = await_phase("Failed");
  EXPECT_EQ(terminated(ended)["exitCode"], 3);
  EXPECT_EQ(ended["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 137);
}

TEST_F(SidecarTest, ThatCannotBeStartedIsTriedAgainAndKeepsThePodWaiting) {
  start();
  json pod = shell_pod("true");
  pod["spec"]["initContainers"] =
      json::array({{{"name", "side"}, {"restartPolicy", "Always"}, {"command", {"/no/such/program"}}}});
  create(pod);
  const auto backs_off = [](const json& object) {
    return object.is_object() &&
           object.value("/status/initContainerStatuses/0/state/waiting/reason"_json_pointer, "") ==
               "CrashLoopBackOff" &&
           object.value("/status/initContainerStatuses/0/restartCount"_json_pointer, 0) == 1;
  };
  const json waiting = await(backs_off);
  EXPECT_EQ(waiting["status"]["phase"], "Pending");
  EXPECT_EQ(waiting["status"]["initContainerStatuses"][0]["lastState"]["terminated"]["exitCode"], 128);
  ASSERT_TRUE(api_.remove(kube::pods, "default", "p-0"));
  await_deletion();
}

TEST_F(SidecarTest, OfADeletedPodOutlivesItsContainers) {
  start();
  create(pod_with(
      "trap '[ -e $FOLDER/worked ] && echo last; exit 0' TERM; touch $FOLDER/side; while :; do sleep 0.01; done",
      "trap 'sleep 0.1; touch $FOLDER/worked; exit 0' TERM; echo up; while :; do sleep 0.01; done"));
  ASSERT_TRUE(comes_true([&] { return !text_of(folder_.file("logs") / "p-0.log").empty(); }));
  ASSERT_TRUE(api_.remove(kube::pods, "default", "p-0"));
  await_deletion();
  EXPECT_THAT(text_of(folder_.file("logs") / "p-0.side.log"), testing::EndsWith("last\n"))
      << "it was asked when the others had ended";
}

TEST_F(ProcessKubeletTest, SideContainersRunBesideTheWorkerAndLogApart) {
  start();
  json pod = shell_pod("echo main");
  pod["spec"]["containers"].push_back({{"name", "side"}, {"command", {"/bin/sh", "-c", "echo side"}}});
  create(pod);
  await_phase("Succeeded");
  EXPECT_EQ(text_of(folder_.file("logs") / "p-0.log"), "main\n");
  EXPECT_EQ(text_of(folder_.file("logs") / "p-0.side.log"), "side\n");
}

TEST_F(ProcessKubeletTest, GpusAreGivenOutUntilThereAreNone) {
  options_.gpus = {"0", "1", "GPU-x"};
  start();
  create(shell_pod("echo $CUDA_VISIBLE_DEVICES", "without"));
  await_phase("Succeeded", "without");
  EXPECT_EQ(text_of(folder_.file("logs") / "without.log"), "-1\n");
  const auto with_gpus = [](const std::string& name, int count) {
    json pod = shell_pod("echo $CUDA_VISIBLE_DEVICES; while ! [ -e $FOLDER/go ]; do sleep 0.01; done", name);
    pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = count;
    return pod;
  };
  create(with_gpus("first", 2));
  await_phase("Running", "first");
  create(with_gpus("second", 2));
  const auto has_condition = [](const json& pod) { return pod.is_object() && pod["status"].contains("conditions"); };
  const json condition = await(has_condition, "second")["status"]["conditions"][0];
  EXPECT_EQ(condition["reason"], "Unschedulable");
  EXPECT_EQ(condition["message"], "0/1 nodes are available: 1 Insufficient nvidia.com/gpu (2 wanted, 1 free)");
  folder_.write("go", "");
  await_phase("Succeeded", "first");
  await_phase("Succeeded", "second");
  EXPECT_EQ(text_of(folder_.file("logs") / "first.log"), "0,1\n");
  EXPECT_EQ(text_of(folder_.file("logs") / "second.log"), "0,1\n");
}

TEST_F(ProcessKubeletTest, TheContainersOfAPodShareItsGpusAndAskForThemTogether) {
  options_.gpus = {"0", "1", "2"};
  start();
  const auto with_gpus = [](const std::string& name, int of_the_second) {
    json pod = shell_pod("echo $CUDA_VISIBLE_DEVICES", name);
    json& containers = pod["spec"]["containers"];
    containers.push_back(containers[0]);
    containers[1]["name"] = "side";
    containers[0]["resources"]["limits"]["nvidia.com/gpu"] = 1;
    containers[1]["resources"]["limits"]["nvidia.com/gpu"] = of_the_second;
    return pod;
  };
  create(with_gpus("both", 2));
  await_phase("Succeeded", "both");
  EXPECT_EQ(text_of(folder_.file("logs") / "both.log"), "0\n");
  EXPECT_EQ(text_of(folder_.file("logs") / "both.side.log"), "1,2\n");
  create(with_gpus("more", 3));
  const auto has_condition = [](const json& pod) { return pod.is_object() && pod["status"].contains("conditions"); };
  EXPECT_EQ(await(has_condition, "more")["status"]["conditions"][0]["message"],
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu (4 wanted, 3 free)");
}

TEST_F(ProcessKubeletTest, LeavesPodsOfOtherNodesAlone) {
  start();
  json elsewhere = shell_pod("echo here", "elsewhere");
  elsewhere["spec"]["nodeName"] = "another";
  create(elsewhere);
  create(shell_pod("true", "ours"));
  await_phase("Succeeded", "ours");
  const json pod = api_.get(kube::pods, "default", "elsewhere").value();
  EXPECT_EQ(pod["status"], (json{{"phase", "Pending"}}));
  EXPECT_EQ(pod["spec"]["nodeName"], "another");
  EXPECT_FALSE(std::filesystem::exists(folder_.file("logs") / "elsewhere.log"));
}

TEST_F(ProcessKubeletTest, ALongTerminationMessageIsItsLast4096Bytes) {
  start();
  create(
      shell_pod("head -c 5000 /dev/zero | tr '\\0' x >$TRAINYARD_TERMINATION_LOG; "
                "printf end >>$TRAINYARD_TERMINATION_LOG"));
  EXPECT_EQ(terminated(await_phase("Succeeded"))["message"], std::string(4093, 'x') + "end");
}

TEST_F(ProcessKubeletTest, AGpuThatIsNamedTwiceIsGivenOutTwice) {
  options_.gpus = {"0", "0"};
  start();
  const auto with_gpu = [](const std::string& name) {
    json pod = shell_pod("echo $CUDA_VISIBLE_DEVICES; while ! [ -e $FOLDER/go ]; do sleep 0.01; done", name);
    pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 1;
    return pod;
  };
  create(with_gpu("first"));
  await_phase("Running", "first");
  create(with_gpu("second"));
  await_phase("Running", "second");
  folder_.write("go", "");
  await_phase("Succeeded", "first");
  await_phase("Succeeded", "second");
  EXPECT_EQ(text_of(folder_.file("logs") / "first.log"), "0\n");
  EXPECT_EQ(text_of(folder_.file("logs") / "second.log"), "0\n");
}

TEST_F(ProcessKubeletTest, NothingIsLeftWhenItIsDestroyed) {
  start();
  create(shell_pod("trap '' TERM; setsid sleep 1000 & echo $$$$ $! >$FOLDER/pids; while :; do sleep 0.1; done"));
  await_phase("Running");
  ASSERT_TRUE(comes_true([&] { return text_of(folder_.file("pids")).ends_with('\n'); }));
  kubelet_.reset();
  std::istringstream pids{text_of(folder_.file("pids"))};
  for (pid_t pid = 0; pids >> pid;) EXPECT_NE(::kill(pid, 0), 0);
}

}  // namespace
}  // namespace trainyard::local
