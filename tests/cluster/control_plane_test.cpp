#include "tests/cluster/control_plane.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

namespace trainyard::cluster {
namespace {

using testing::HasSubstr;

TEST_F(ControlPlaneTest, ServesAnAdministratorByCertificateAndByToken) {
  for (const auto& kubeconfig : {control_plane().kubeconfig(), control_plane().token_kubeconfig()}) {
    const auto answer = control_plane().kubectl({"--kubeconfig", kubeconfig, "auth", "can-i", "create", "pods"});
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(*answer, "yes\n") << kubeconfig;
  }
}

TEST_F(ControlPlaneTest, RefusesSomebodyWithoutRightsBySayingWho) {
  const auto answer = control_plane().kubectl({"--kubeconfig", control_plane().nobody_kubeconfig(), "get", "pods"});
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("User \"nobody\" cannot list resource \"pods\""));
}

TEST_F(ControlPlaneTest, TakesPodsInANewNamespaceAtOnce) {
  const auto name_space = control_plane().create_namespace("pods");
  ASSERT_TRUE(name_space) << name_space.error().message;
  const std::string pod = R"({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
                              "spec": {"containers": [{"name": "c", "image": "none"}]}})";
  const auto created = control_plane().apply(*name_space, pod);
  ASSERT_TRUE(created) << created.error().message;
  const auto phase = control_plane().kubectl({"get", "pod", "a", "-n", *name_space, "-o", "jsonpath={.status.phase}"});
  ASSERT_TRUE(phase) << phase.error().message;
  EXPECT_EQ(*phase, "Pending");
}

TEST_F(ControlPlaneTest, ServesAgainAfterItsApiServerWasKilled) {
  const auto killed = control_plane().kill_api_server();
  ASSERT_TRUE(killed) << killed.error().message;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(90);
  Result<std::string> answer = control_plane().kubectl({"get", "--raw", "/readyz"});
  while (!answer && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    answer = control_plane().kubectl({"get", "--raw", "/readyz"});
  }
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(*answer, "ok");
}

}  // namespace
}  // namespace trainyard::cluster
