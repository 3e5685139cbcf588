#include "tests/cluster/control_plane.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/try.hpp"
#include "tests/cluster/child.hpp"
#include "tests/paths/paths.hpp"
#include "tests/skips.hpp"

namespace trainyard::cluster {
namespace {

constexpr int exit_cannot_run_here = 3;  // scripts/cluster's.

std::string script() {
  return paths::source("scripts/cluster");
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Started by the first call, ended with the process.
Result<std::unique_ptr<ControlPlane>>& shared_control_plane() {
  static Result<std::unique_ptr<ControlPlane>> shared = ControlPlane::start();
  return shared;
}

}  // namespace

Result<std::unique_ptr<ControlPlane>> ControlPlane::start() {
  std::unique_ptr<ControlPlane> plane(new ControlPlane());
  TRY(plane->launch());
  return plane;
}

Result<void> ControlPlane::launch() {
  std::string folder = (std::filesystem::temp_directory_path() / "trainyard-control-plane-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr)
    return fail(ErrorKind::io, fmt::format("making folder {}: {}", folder, std::strerror(errno)));
  folder_ = folder;
  auto runner = TRY(start_child({script(), "run", "--control-plane-only", "--dir", folder}));
  runner_ = runner.pid;
  lifeline_ = runner.stdin_fd;
  const bool is_ready = read_line(runner.stdout_fd) == "ready";
  close(runner.stdout_fd);
  if (is_ready) {
    close(runner.stderr_fd);
    return read_status();
  }
  const int exit_code = wait_for_exit(std::exchange(runner_, -1));
  const std::string said = read_whole(runner.stderr_fd);
  return fail(exit_code == exit_cannot_run_here ? ErrorKind::not_found : ErrorKind::unavailable,
              fmt::format("starting a control plane with {}: exit {}: {}", script(), exit_code, said));
}

Result<void> ControlPlane::read_status() {
  const auto status = nlohmann::json::parse(read_file(folder_ / "status.json"), nullptr, false);
  if (!status.is_object())
    return fail(ErrorKind::corrupt, fmt::format("{}/status.json is not a JSON object", folder_.string()));
  server_ = status.value("server", "");
  etcd_ = status.value("etcd", "");
  return {};
}

ControlPlane::~ControlPlane() {
  if (lifeline_ >= 0) close(lifeline_);
  if (runner_ > 0) wait_for_exit(runner_);
}

Result<std::string> ControlPlane::kubectl(const std::vector<std::string>& arguments) const {
  std::vector<std::string> command{script(), "kubectl", "--dir", folder_, "--"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  auto child = TRY(start_child(command));
  close(child.stdin_fd);
  std::string output = read_to_end(child.stdout_fd);
  const int exit_code = wait_for_exit(child.pid);
  const std::string said = read_whole(child.stderr_fd);
  if (exit_code != 0)
    return fail(ErrorKind::invalid, fmt::format("kubectl {}: exit {}: {}", fmt::join(arguments, " "), exit_code, said));
  return output;
}

Result<std::string> ControlPlane::apply(const std::string& name_space, const std::string& manifest) const {
  const std::filesystem::path file = folder_ / fmt::format("manifest-{}", gettid());
  std::ofstream(file) << manifest;
  return kubectl({"apply", "-n", name_space, "-f", file});
}

Result<std::string> ControlPlane::create_namespace(const std::string& prefix) {
  std::string name = fmt::format("{}-{}", prefix, ++namespaces_);
  TRY(kubectl({"create", "namespace", name}));
  // Pods are refused until the controller manager has made the namespace's default service account.
  TRY(kubectl({"wait", "--for=create", "--timeout=60s", "-n", name, "serviceaccount/default"}));
  return name;
}

Result<void> ControlPlane::kill_api_server() const {
  const auto status = nlohmann::json::parse(read_file(folder_ / "status.json"), nullptr, false);
  const int pid = status.is_object() ? status.value("/components/kube-apiserver/pid"_json_pointer, 0) : 0;
  if (pid <= 0 || kill(pid, SIGKILL) != 0) return fail(ErrorKind::not_found, "killing kube-apiserver: it does not run");
  return {};
}

void ControlPlaneTest::SetUp() {
  const auto& shared = shared_control_plane();
  if (shared) return;
  if (shared.error().kind == ErrorKind::not_found) return tests::cannot_run(shared.error().message);
  FAIL() << shared.error().message;
}

ControlPlane& ControlPlaneTest::control_plane() {
  return **shared_control_plane();
}

}  // namespace trainyard::cluster
