#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace trainyard::cluster {

/// A real etcd, kube-apiserver and kube-controller-manager on this machine's loopback, with the definitions of crds/
/// installed. There are no nodes: a pod stays Pending until a test writes its status. It ends with the process that
/// started it, even if that process is killed.
class ControlPlane {
 public:
  /// Blocks until requests are served: about ten seconds on an idle machine. ErrorKind::not_found when this machine
  /// lacks a tool (scripts/setup cluster installs them); unavailable when it did not start, with the end of the log
  /// that says why.
  [[nodiscard]] static Result<std::unique_ptr<ControlPlane>> start();
  ~ControlPlane();
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  /// "https://127.0.0.1:PORT"
  [[nodiscard]] const std::string& server() const { return server_; }
  /// etcd's client URL: its JSON gateway can compact the history that watches need (POST /v3/kv/compaction).
  [[nodiscard]] const std::string& etcd() const { return etcd_; }
  [[nodiscard]] std::filesystem::path ca_certificate() const { return folder_ / "pki/ca.crt"; }
  /// Configuration of an administrator with a client certificate.
  [[nodiscard]] std::filesystem::path kubeconfig() const { return folder_ / "kubeconfig"; }
  /// Configuration of an administrator with a token.
  [[nodiscard]] std::filesystem::path token_kubeconfig() const { return folder_ / "token.kubeconfig"; }
  /// Configuration of a known user without rights.
  [[nodiscard]] std::filesystem::path nobody_kubeconfig() const { return folder_ / "nobody.kubeconfig"; }
  /// A folder for the test's files, which is removed with the control plane.
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

  /// The output of the real kubectl as administrator. ErrorKind::invalid with kubectl's error text when it fails.
  [[nodiscard]] Result<std::string> kubectl(const std::vector<std::string>& arguments) const;
  /// Applies a manifest (YAML or JSON) in a namespace; what kubectl prints, and its errors.
  [[nodiscard]] Result<std::string> apply(const std::string& name_space, const std::string& manifest) const;
  /// A new namespace in which pods can be created at once, named `prefix` and a number. Tests in one executable stay
  /// apart by it.
  [[nodiscard]] Result<std::string> create_namespace(const std::string& prefix);
  /// Kills the API server (SIGKILL). The runner restarts it after a second, at the same address.
  [[nodiscard]] Result<void> kill_api_server() const;

 private:
  ControlPlane() = default;
  Result<void> launch();
  Result<void> read_status();

  std::filesystem::path folder_;
  std::string server_;
  std::string etcd_;
  pid_t runner_ = -1;
  int lifeline_ = -1;  ///< The runner's stdin. Our end closes it, in whatever way we end, and then the runner ends too.
  int namespaces_ = 0;
};

/// A test on the control plane that this executable's tests share; the first one starts it. Where it cannot run, the
/// test is skipped with the reason, and fails when the environment has CI=true.
class ControlPlaneTest : public ::testing::Test {
 protected:
  void SetUp() override;
  /// Call it only after SetUp() of this class succeeded.
  [[nodiscard]] static ControlPlane& control_plane();
};

}  // namespace trainyard::cluster
