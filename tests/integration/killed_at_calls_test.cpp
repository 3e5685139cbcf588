#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <thread>

#include "common/clock.hpp"
#include "common/interruptible_wait.hpp"
#include "operator/manager/controller.hpp"
#include "tests/builders/a_job.hpp"
#include "tests/fakes/faulty_api.hpp"
#include "tests/integration/api_test.hpp"
#include "tests/integration/eventually.hpp"
#include "tests/integration/hand_kubelet.hpp"

namespace trainyard::integration {
namespace {

using fakes::ApiCall;
using fakes::Fault;
using kube::json;
using std::chrono::milliseconds;

/// Where an operator is killed: at its `write`-th write, from 1, before or after the server has handled it.
struct Point {
  int write = 0;
  Fault::Kind kind = Fault::Kind::dies_before;
};

/// An operator that is killed once and restarted at once.
class MortalOperator {
 public:
  MortalOperator(kube::Api& api, std::string name_space, Point point)
      : name_space_{std::move(name_space)}, faulty_{api} {
    faulty_.set_schedule([this, point](const ApiCall& call) -> std::optional<Fault> {
      if (call.verb == "get" || call.verb == "list" || ++writes_ != point.write) return std::nullopt;
      return Fault{.kind = point.kind};
    });
    thread_ = std::jthread{[this](const std::stop_token& stop) { run(stop); }};
  }

  [[nodiscard]] int lives() const { return lives_; }
  /// Pods that were created more than once under one name.
  [[nodiscard]] std::vector<std::string> twins() const {
    std::map<std::string, int> created;
    for (const ApiCall& call : faulty_.done()) {
      if (call.verb == "create" && call.plural == "pods") ++created[call.name];
    }
    std::vector<std::string> names;
    for (const auto& [name, count] : created) {
      if (count > 1) names.push_back(name);
    }
    return names;
  }

 private:
  void run(const std::stop_token& stop) {
    const SystemClock clock;
    manager::Counters counters;
    manager::ControllerOptions options;
    options.namespaces = {name_space_};
    options.is_watching_nodes = false;
    options.workers = 1;
    options.call_rank = [](const std::string&, const auto& /*post*/, milliseconds) {
      return fail(ErrorKind::unavailable, "nobody is there");
    };
    while (!stop.stop_requested()) {
      ++lives_;
      {
        const manager::Controller controller{faulty_, clock, options, counters};
        while (!faulty_.is_dead() && wait_unless_stopped(stop, milliseconds{5})) continue;
      }
      // The last thread of the killed operator has ended, so calls may pass again.
      faulty_.revive();
    }
  }

  const std::string name_space_;
  fakes::FaultyApi faulty_;
  int writes_ = 0;  // guarded by the lock of faulty_
  std::atomic<int> lives_ = 0;
  std::jthread thread_;
};

class OperatorKilled : public ApiTest {
 protected:
  /// A job of two pods whose second one fails once, from its creation to its success.
  void expect_the_same_life(const std::string& name_space, Point point) {
    SCOPED_TRACE(
        fmt::format("killed {} write {}", point.kind == Fault::Kind::dies_before ? "before" : "after", point.write));
    const MortalOperator mortal{*api_, name_space, point};
    HandKubelet kubelet{*api_, name_space};
    json manifest = builders::a_job().named("line").without_training().container().manifest();
    manifest["metadata"]["namespace"] = name_space;
    manifest["spec"]["restart"]["backoff"]["initial"] = "10ms";
    const auto created = api_->create(kube::training_jobs, name_space, manifest, {.is_strict = true});
    ASSERT_TRUE(created) << created.error().message;

    const auto status = [&] {
      const auto object = api_->get(kube::training_jobs, name_space, "line");
      return object ? object->value("status", json::object()) : json::object();
    };
    const auto running = [&](int attempt) {
      std::vector<std::string> names;
      for (const json& pod : kubelet.pods()) {
        if (pod["metadata"]["labels"]["trainyard.dev/attempt"] != std::to_string(attempt)) continue;
        if (pod["status"].value("phase", "") == "Running") names.push_back(pod["metadata"]["name"]);
      }
      return names;
    };
    ASSERT_TRUE(eventually([&] { return status().value("phase", "") == "Running"; })) << status();
    ASSERT_EQ(running(1).size(), 2U);
    ASSERT_TRUE(kubelet.end(running(1)[1], 1));
    ASSERT_TRUE(eventually([&] { return running(2).size() == 2; })) << status();
    for (const std::string& pod : running(2)) ASSERT_TRUE(kubelet.end(pod, 0));
    ASSERT_TRUE(eventually([&] { return status().value("phase", "") == "Succeeded"; })) << status();

    const json last = status();
    EXPECT_EQ(last.value("attempt", 0), 2) << last;
    EXPECT_EQ(last["restarts"].value("application", 0), 1) << last;
    EXPECT_EQ(mortal.twins(), std::vector<std::string>{});
    EXPECT_EQ(running(1).size() + running(2).size(), 0U) << "no pod is left behind";
    EXPECT_EQ(mortal.lives(), 2) << "it was killed once";
  }
};

TEST_F(OperatorKilled, AtAnyOfTenWritesTakesTheJobToTheSameEnd) {
  // From the dry run of the first pod to the job's success; the whole life is about twenty writes.
  std::vector<std::jthread> lives;  // In parallel, since each mostly waits.
  for (const int write : {1, 2, 4, 5, 7, 9, 11, 12, 14, 16}) {
    const auto name_space = control_plane().create_namespace("killed");
    ASSERT_TRUE(name_space) << name_space.error().message;
    const Fault::Kind kind = lives.size() % 2 == 0 ? Fault::Kind::dies_after : Fault::Kind::dies_before;
    lives.emplace_back([this, name_space = *name_space, write, kind] {
      expect_the_same_life(name_space, {.write = write, .kind = kind});
    });
  }
}

}  // namespace
}  // namespace trainyard::integration
