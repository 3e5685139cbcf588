#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "operator/kube/config_sources.hpp"
#include "tests/fakes/temporary_folder.hpp"

// The cluster as the variables of this process describe it.

namespace trainyard::kube {
namespace {

/// Sets a variable of this process, or removes it, until the destructor.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_{name} {
    if (const char* former = std::getenv(name); former != nullptr) former_ = former;
    set(value);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { set(former_ ? former_->c_str() : nullptr); }

 private:
  void set(const char* value) const {
    if (value != nullptr) {
      ::setenv(name_, value, 1);
    } else {
      ::unsetenv(name_);
    }
  }

  const char* name_;
  std::optional<std::string> former_;
};

TEST(DefaultKubeconfig, IsTheFirstFileOfTheListThatIsThereElseTheOneAtHome) {
  const fakes::TemporaryFolder folder;
  folder.write("first", "x");
  folder.write("second", "x");
  const auto found = [](const std::string& list) {
    const Variable kubeconfig{"KUBECONFIG", list.c_str()};
    const Variable home{"HOME", "/home/me"};
    return default_kubeconfig();
  };
  EXPECT_EQ(found(folder.file("first").string()), folder.file("first"));
  EXPECT_EQ(found(":" + folder.file("missing").string() + ":" + folder.file("second").string() + ":" +
                  folder.file("first").string()),
            folder.file("second"));
  EXPECT_EQ(found(folder.file("missing").string()), "/home/me/.kube/config");
  EXPECT_EQ(found(""), "/home/me/.kube/config");
  const Variable kubeconfig{"KUBECONFIG", nullptr};
  {
    const Variable home{"HOME", "/home/me"};
    EXPECT_EQ(default_kubeconfig(), "/home/me/.kube/config");
  }
  const Variable home{"HOME", nullptr};
  EXPECT_EQ(default_kubeconfig(), ".kube/config");
}

TEST(ServiceAccountMount, IsWhatTheVariablesOfAPodSay) {
  const Variable host{"KUBERNETES_SERVICE_HOST", "10.96.0.1"};
  const Variable port{"KUBERNETES_SERVICE_PORT", "6443"};
  EXPECT_EQ(service_account_mount().host, "10.96.0.1");
  EXPECT_EQ(service_account_mount().port, "6443");
  const Variable nowhere{"KUBERNETES_SERVICE_HOST", nullptr};
  EXPECT_EQ(service_account_mount().host, "");
}

}  // namespace
}  // namespace trainyard::kube
