// A rank and its launcher, as a pod starts them, while a real S3 server or the connection to it fails.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/paths/paths.hpp"
#include "tests/storage/s3_faults.hpp"
#include "tests/storage/s3_fixture.hpp"
#include "tests/worker/launcher/launcher_process.hpp"

namespace trainyard::storage {
namespace {

using launcher::eventually;
using launcher::LauncherProcess;
using launcher::TestGroup;
using std::chrono::steady_clock;

class ARankWithS3 : public S3Fixture {
 protected:
  /// The pod of one rank that trains until it is stopped, or for `training`'s steps, and saves to `prefix` at the
  /// server behind `port`. `training`, `checkpoint`: more fields, each with a comma before it.
  [[nodiscard]] std::unique_ptr<LauncherProcess> train(std::uint16_t port, const std::string& checkpoint,
                                                       const std::string& training = "", int attempt = 1,
                                                       const std::string& prefix = "run",
                                                       std::uint16_t status_port = launcher::free_port()) const {
    const std::string spec = fmt::format(
        R"({{"training": {{"model": {{"name": "fashion_cnn"}}, "data": {{"format": "synthetic", "samples": 240}}, )"
        R"("batchSize": 2, "epochs": 100000, "validateEvery": {{"epochs": 100000}}{}}}, )"
        R"("checkpoint": {{"uri": "s3://{}/{}"{}}}}})",
        training, bucket, prefix, checkpoint);
    const TestGroup group{.world_size = 1,
                          .variables = {{"TRAINYARD_SPEC", spec},
                                        {"TRAINYARD_STATUS_PORT", std::to_string(status_port)},
                                        {"TRAINYARD_JOB_UID", "uid"},
                                        {"TRAINYARD_ATTEMPT", std::to_string(attempt)},
                                        {"TRAINYARD_LOG_FORMAT", "json"},
                                        {"AWS_ACCESS_KEY_ID", Versitygw::access_key_id},
                                        {"AWS_SECRET_ACCESS_KEY", Versitygw::secret_access_key},
                                        {"AWS_ENDPOINT_URL_S3", fmt::format("http://127.0.0.1:{}", port)},
                                        {"OMP_NUM_THREADS", "1"},
                                        {"CUDA_VISIBLE_DEVICES", "-1"}},
                          .store_script = "exec " + paths::program("trainyard-store") + " \"$@\""};
    return std::make_unique<LauncherProcess>(group, 0, "exec " + paths::program("trainyard-rank"));
  }
  [[nodiscard]] std::vector<std::string> keys_of(const std::string& folder, const std::string& prefix = "run") const {
    const auto objects = open(server().port(), prefix)->list(folder);
    std::vector<std::string> keys;
    for (const ObjectInfo& object : objects.value()) keys.push_back(object.key);
    return keys;
  }
};

/// How the deletes of retention are held up.
class ARankWhoseDeletesAreHeldUp : public ARankWithS3, public testing::WithParamInterface<Fault::Kind> {};

TEST_P(ARankWhoseDeletesAreHeldUp, IsStoppedAtOnceAndTheNextRemovesWhatWasLeft) {
  std::atomic<int> removals = 0;
  FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                     if (!is_removal(request)) return Fault{};
                     ++removals;
                     return Fault{GetParam(), "", 0};
                   }};
  std::int64_t step = 0;
  {
    const auto first = train(proxy.port(), R"(, "every": {"steps": 5}, "keep": {"last": 2})");
    ASSERT_TRUE(eventually([&] { return removals > 0; })) << first->output();
    const auto asked = steady_clock::now();
    first->send_signal(SIGTERM);
    EXPECT_EQ(first->wait(), 91) << first->output();
    EXPECT_LT(steady_clock::now() - asked, std::chrono::seconds{20}) << first->output();
    EXPECT_EQ(removals, 1) << "a delete that is waited for is tried again after 30 s";
    step = first->termination_message().at("progress").at("step");
  }
  EXPECT_GT(keys_of("step-").size(), 4U) << "more than two data files and two manifests";
  const auto second = train(server().port(), R"(, "every": {"steps": 100000}, "keep": {"last": 2})",
                            fmt::format(R"(, "maxSteps": {})", step + 5), 2);
  EXPECT_EQ(second->wait(), 0) << second->output();
  EXPECT_TRUE(second->has_printed(fmt::format(R"("message":"resumed from a checkpoint","step":{})", step)))
      << second->output();
  EXPECT_EQ(keys_of("step-").size(), 4U);
  for (const std::string& kept : {fmt::format("step-{}/g-1/", step), fmt::format("step-{}/g-2/", step + 5)})
    EXPECT_EQ(keys_of(kept).size(), 2U) << kept;
}

INSTANTIATE_TEST_SUITE_P(Table, ARankWhoseDeletesAreHeldUp,
                         testing::Values(Fault::Kind::stall, Fault::Kind::hold_reply), [](const auto& info) {
                           return info.param == Fault::Kind::stall ? "BeforeTheServer" : "AfterTheServer";
                         });

/// An outage that begins in the midst of the first save. It is longer than the ten seconds for which a storage that has
/// never answered is asked.
class AnOutage {
 public:
  explicit AnOutage(Fault fault) : fault_{std::move(fault)} {}

  Fault decide(const ProxiedRequest& request) {
    const std::size_t place = request.target.find("/step-");
    if (step_ == 0 && request.method == "PUT" && place != std::string::npos) {
      begun_ = steady_clock::now();
      step_ = std::stoll(request.target.substr(place + 6));
    }
    const bool is_over = may_end_ && steady_clock::now() >= begun_ + std::chrono::seconds{20};
    return step_ == 0 || is_over ? Fault{} : fault_;
  }
  /// The step of the save in which it began; 0: it has not yet.
  [[nodiscard]] std::int64_t step() const { return step_; }
  /// Lets it end, but not before it has lasted for 20 s.
  void let_end() { may_end_ = true; }

 private:
  const Fault fault_;
  steady_clock::time_point begun_;  // Only decide() uses it, which the proxy calls under a lock.
  std::atomic<std::int64_t> step_ = 0;
  std::atomic<bool> may_end_ = false;
};

nlohmann::json status_at(std::uint16_t port) {
  const auto reply = httplib::Client{"127.0.0.1", port}.Get("/status");
  return reply && reply->status == 200 ? nlohmann::json::parse(reply->body) : nlohmann::json::object();
}

std::int64_t saved_step(const nlohmann::json& status) {
  return status.value("/checkpoint/step"_json_pointer, 0);
}

TEST_F(ARankWithS3, LosesNoCheckpointThatItCanStillWriteAfterAnOutageAndSaysMeanwhileThatSavingFails) {
  const auto outlast = [&](const std::string& prefix, const Fault& fault) {
    AnOutage outage{fault};
    FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) { return outage.decide(request); }};
    const std::uint16_t status_port = launcher::free_port();
    const auto rank =
        train(proxy.port(), R"(, "every": {"steps": 10}, "keep": {"last": 1000})", "", 1, prefix, status_port);
    nlohmann::json status;
    const auto comes_to_show = [&](const std::function<bool()>& what) {
      return eventually([&] {
        status = status_at(status_port);
        return what();
      });
    };
    EXPECT_TRUE(comes_to_show([&] {
      const std::string said = fmt::format("step {} is not saved yet: ", outage.step());
      return status.value("checkpointError", "").starts_with(said) && status.value("step", 0) > outage.step() + 20;
    })) << status
        << rank->output();
    outage.let_end();
    EXPECT_TRUE(comes_to_show([&] { return saved_step(status) > 0 && !status.contains("checkpointError"); })) << status;
    EXPECT_EQ(keys_of(fmt::format("step-{}/g-1/manifest.json", outage.step()), prefix).size(), 1U) << rank->output();
    EXPECT_FALSE(rank->has_printed("saving failed")) << rank->output();
    rank->send_signal(SIGTERM);
    EXPECT_EQ(rank->wait(), 91) << rank->output();
  };
  // Both at the same time, since they mostly wait.
  const std::jthread refused{outlast, "refused", refuse(503, "ServiceUnavailable")};
  const std::jthread cut{outlast, "cut", Fault{Fault::Kind::reset_request, "", 1000}};
}

}  // namespace
}  // namespace trainyard::storage
