#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "operator/kube/config_sources.hpp"
#include "operator/kube/http_api.hpp"
#include "tests/cluster/control_plane.hpp"

namespace trainyard::integration {

/// A test with an administrator's connection to a real API server, and a namespace of its own.
class ApiTest : public cluster::ControlPlaneTest {
 protected:
  void SetUp() override {
    ControlPlaneTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    api_ = connect(control_plane().kubeconfig());
    auto name_space = control_plane().create_namespace("test");
    ASSERT_TRUE(name_space) << name_space.error().message;
    name_space_ = *name_space;
  }

  static std::unique_ptr<kube::HttpApi> connect(const std::filesystem::path& kubeconfig) {
    auto config = kube::load_kubeconfig(kubeconfig);
    EXPECT_TRUE(config) << config.error().message;
    auto api = kube::HttpApi::make(*std::move(config));
    EXPECT_TRUE(api) << api.error().message;
    return *std::move(api);
  }

  std::unique_ptr<kube::HttpApi> api_;
  std::string name_space_;
};

}  // namespace trainyard::integration
