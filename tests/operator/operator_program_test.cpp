#include <gmock/gmock.h>
#include <httplib.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "common/child_program.hpp"
#include "common/text.hpp"
#include "tests/fakes/free_port.hpp"
#include "tests/fakes/scripted_api_server.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"

// Flags of trainyard-operator, tested by the requests that its process sends and by its answers to probes.

namespace trainyard {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using testing::HasSubstr;

using Arguments = std::vector<std::string>;

std::string kubeconfig_of(const std::string& url, const std::string& ca_pem) {
  const json cluster{{"server", url}, {"certificate-authority-data", encode_base64(ca_pem)}};
  return json{
      {"current-context", "c"},
      {"contexts", {{{"name", "c"}, {"context", {{"cluster", "c"}, {"user", "u"}, {"namespace", "of-the-context"}}}}}},
      {"clusters", {{{"name", "c"}, {"cluster", cluster}}}},
      {"users", {{{"name", "u"}, {"user", {{"token", "secret"}}}}}}}
      .dump();
}

/// An API server with one job "a" in the namespace "team". It refuses every pod.
class OneJobServer {
 public:
  explicit OneJobServer(std::int64_t gpus_per_pod) {
    job_ = {{"apiVersion", "trainyard.dev/v1alpha1"},
            {"kind", "TrainingJob"},
            {"metadata",
             {{"name", "a"}, {"namespace", "team"}, {"uid", "abcd"}, {"resourceVersion", "1"}, {"generation", 1}}},
            {"spec",
             {{"replicas", 1},
              {"gpusPerPod", gpus_per_pod},
              {"training", {{"model", {{"name", "mlp"}}}, {"maxSteps", 1}}}}}};
  }
  [[nodiscard]] std::string kubeconfig() const {
    return kubeconfig_of("https://127.0.0.1:" + std::to_string(server_.port()), server_.authority().pem());
  }
  /// The pod of the job's dry run; null if there was none within a minute.
  json pod() {
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, seconds{60}, [&] { return !pod_.is_null(); });
    return pod_;
  }
  /// The paths of which a list was asked for.
  std::set<std::string> listed() {
    const std::scoped_lock lock{mutex_};
    return listed_;
  }
  /// The paths under which a Lease was created.
  std::set<std::string> elections() {
    const std::scoped_lock lock{mutex_};
    return elections_;
  }

 private:
  void answer(const httplib::Request& request, httplib::Response& response) {
    // Otherwise each kept connection would keep a thread of the server.
    response.set_header("Connection", "close");
    const std::scoped_lock lock{mutex_};
    if (request.path.find("/leases") != std::string::npos) return answer_lease(request, response);
    if (request.method == "PUT") {
      job_["status"] = json::parse(request.body).at("status");
      job_["metadata"]["resourceVersion"] = std::to_string(++version_);
      return fakes::answer_json(response, job_.dump());
    }
    if (request.method == "POST") {
      if (request.path.ends_with("/pods")) pod_ = json::parse(request.body);
      changed_.notify_all();
      return fakes::answer_status(response, 403, "Forbidden", "no pods here");
    }
    if (request.has_param("watch")) return fakes::answer_json(response, "");
    listed_.insert(request.path);
    json items = json::array();
    const bool is_of_jobs = request.path.ends_with("/trainingjobs");
    if (is_of_jobs && request.path.find("/namespaces/other") == std::string::npos) items.push_back(job_);
    fakes::answer_json(
        response,
        json{{"metadata", {{"resourceVersion", std::to_string(version_)}}}, {"items", std::move(items)}}.dump());
  }
  void answer_lease(const httplib::Request& request, httplib::Response& response) {
    if (request.method == "GET") return fakes::answer_status(response, 404, "NotFound", "no lease");
    if (request.method == "POST") elections_.insert(request.path);
    json lease = json::parse(request.body);
    lease["metadata"]["uid"] = "of-the-lease";
    lease["metadata"]["resourceVersion"] = std::to_string(++version_);
    fakes::answer_json(response, lease.dump(), request.method == "POST" ? 201 : 200);
  }

  std::mutex mutex_;  // guards all below but the server
  std::condition_variable changed_;
  json job_;
  json pod_;
  std::set<std::string> listed_;
  std::set<std::string> elections_;
  std::int64_t version_ = 10;
  fakes::ScriptedApiServer server_{[this](const auto& request, auto& response) { answer(request, response); }};
};

/// A running operator that `server` answers. The destructor kills it.
class RunningOperator {
 public:
  RunningOperator(const OneJobServer& server, const Arguments& flags) {
    const std::string kubeconfig = folder_.write("config", server.kubeconfig()).string();
    // Another program may take a free port before the operator does.
    for (int attempt = 0; attempt < 10; ++attempt) {
      port_ = fakes::free_port();
      Arguments command{paths::program("trainyard-operator"),
                        "--kubeconfig",
                        kubeconfig,
                        "--listen",
                        "127.0.0.1:" + std::to_string(port_),
                        "--worker-image-cpu",
                        "worker:cpu",
                        "--worker-image-cuda",
                        "worker:cuda"};
      command.insert(command.end(), flags.begin(), flags.end());
      ended_ = std::async(std::launch::async, [command, stop = stop_.get_token()] {
        return run_program(command, seconds{120}, {.environment = {}, .stop = stop});
      });
      if (answers()) return;
    }
    ADD_FAILURE() << "the operator does not answer";
  }
  ~RunningOperator() {
    stop_.request_stop();
    ended_.wait();
  }
  /// The answer to GET `path` once its status is `status`.
  std::string get(const std::string& path, int status = 200) {
    httplib::Client client{"127.0.0.1", port_};
    const auto deadline = std::chrono::steady_clock::now() + seconds{60};
    while (std::chrono::steady_clock::now() < deadline) {
      const auto answer = client.Get(path);
      if (answer && answer->status == status) return answer->body;
      std::this_thread::yield();
    }
    return "no such answer";
  }

 private:
  /// False once the process has ended.
  bool answers() {
    httplib::Client client{"127.0.0.1", port_};
    while (ended_.wait_for(std::chrono::milliseconds{1}) != std::future_status::ready) {
      const auto answer = client.Get("/metrics");
      if (answer && answer->body.find("trainyard_operator_leader") != std::string::npos) return true;
    }
    return false;
  }

  fakes::TemporaryFolder folder_;
  int port_ = 0;
  std::stop_source stop_;
  std::future<Result<ProgramEnd>> ended_;
};

const std::string job_lists = "/apis/trainyard.dev/v1alpha1";

TEST(OperatorProgram, WorksInAllNamespacesAndMakesPodsAsItsFlagsSay) {
  OneJobServer server{0};
  RunningOperator process{server, {"--worker-pull-secret", "first", "--worker-pull-secret", "second"}};
  const json pod = server.pod();
  ASSERT_TRUE(pod.is_object());
  const json& spec = pod.at("spec");
  EXPECT_EQ(spec.at("containers").at(0).at("image"), "worker:cpu");
  EXPECT_EQ(spec.at("imagePullSecrets"), json::parse(R"([{"name": "first"}, {"name": "second"}])"));
  EXPECT_EQ(spec.at("securityContext").at("runAsUser"), 65532);
  EXPECT_EQ(process.get("/readyz"), "ok\n");
  EXPECT_EQ(process.get("/healthz"), "ok\n");
  EXPECT_THAT(process.get("/metrics"), HasSubstr("trainyard_operator_leader 1\n"));
  EXPECT_THAT(process.get("/metrics"), HasSubstr("trainyard_jobs{phase=\""));
  EXPECT_EQ(server.listed(), (std::set<std::string>{job_lists + "/trainingjobs", "/api/v1/pods", "/api/v1/services",
                                                    "/api/v1/nodes", "/apis/events.k8s.io/v1/events"}));
  EXPECT_EQ(server.elections(), std::set<std::string>{"/apis/coordination.k8s.io/v1/namespaces/of-the-context/leases"});
}

TEST(OperatorProgram, KeepsToTheNamespacesAndTheUsersThatItsFlagsName) {
  OneJobServer server{1};
  RunningOperator process{
      server, {"--namespaces", "team,other", "--user-ids", "cluster", "--leader-election-namespace", "elections"}};
  const json pod = server.pod();
  ASSERT_TRUE(pod.is_object());
  const json& spec = pod.at("spec");
  EXPECT_EQ(spec.at("containers").at(0).at("image"), "worker:cuda");
  EXPECT_FALSE(spec.contains("imagePullSecrets"));
  EXPECT_FALSE(spec.at("securityContext").contains("runAsUser")) << "the cluster chooses it";
  std::set<std::string> expected;
  for (const std::string name_space : {"/namespaces/team", "/namespaces/other"}) {
    expected.insert({job_lists + name_space + "/trainingjobs", "/api/v1" + name_space + "/pods",
                     "/api/v1" + name_space + "/services", "/apis/events.k8s.io/v1" + name_space + "/events"});
  }
  EXPECT_EQ(server.listed(), expected);
  EXPECT_EQ(server.elections(), std::set<std::string>{"/apis/coordination.k8s.io/v1/namespaces/elections/leases"});
}

TEST(OperatorProgram, IsNotAliveOnceTheApiServerIsSilentForLongerThanItsFlagSays) {
  std::optional<OneJobServer> server{std::in_place, 0};
  RunningOperator process{*server, {"--api-silence-max", "1"}};
  EXPECT_EQ(process.get("/healthz"), "ok\n");
  server.reset();
  EXPECT_NE(process.get("/healthz", 503), "no such answer");
}

TEST(OperatorProgram, SaysWhyItCannotStart) {
  const fakes::TemporaryFolder folder;
  const std::string nowhere =
      folder
          .write("config", kubeconfig_of("https://127.0.0.1:" + std::to_string(fakes::free_port()),
                                         fakes::CertificateAuthority{"a"}.pem()))
          .string();
  const std::string wrong_ca = folder.write("wrong", kubeconfig_of("https://127.0.0.1:1", "no certificate")).string();
  struct Row {
    Arguments flags;
    std::string words;
  };
  const std::vector<Row> rows{
      {{"--kubeconfig", folder.file("none").string()}, "the operator cannot start"},
      {{"--kubeconfig", wrong_ca}, "is not a PEM certificate"},
      {{"--kubeconfig", nowhere, "--listen", "8080"}, ""},
      {{"--kubeconfig", nowhere, "--workers", "0"}, "--workers"},
      {{"--kubeconfig", nowhere, "--workers", "65"}, "--workers"},
      {{"--kubeconfig", nowhere, "--api-silence-max", "-1"}, "--api-silence-max"},
      {{"--kubeconfig", nowhere, "--api-silence-max", "86401"}, "--api-silence-max"},
      {{"--kubeconfig", nowhere, "--user-ids", "process"}, "--user-ids"},
      {{"--kubeconfig", nowhere, "--log-level", "loud"}, "--log-level"},
      {{"--no-such-flag"}, "--no-such-flag"},
  };
  for (const Row& row : rows) {
    Arguments command{paths::program("trainyard-operator")};
    command.insert(command.end(), row.flags.begin(), row.flags.end());
    const auto end = run_program(command, seconds{60});
    ASSERT_TRUE(end) << end.error().message;
    EXPECT_NE(end->exit_code, 0) << row.words;
    EXPECT_THAT(end->words, HasSubstr(row.words));
  }
}

}  // namespace
}  // namespace trainyard
