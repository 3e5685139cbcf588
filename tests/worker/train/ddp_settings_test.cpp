#include "worker/train/ddp_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <utility>

#include "include/trainyard/options.hpp"
#include "tests/worker/train/with_process_sets.hpp"

namespace trainyard::train {
namespace {

using api::StrategyName;
using api::StrategySpec;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(DdpSettings, BecomeFieldsOfTheStrategyWithinTheirBounds) {
  struct Row {
    StrategyName name;
    DdpSettings settings;
    std::string refusal = {};  // empty: they are accepted
    bool joins = false;
  };
  const Row rows[] = {
      {StrategyName::ddp, {.bucket_mib = 1, .broadcast_buffers = false, .sync_batch_norm = true}},
      {StrategyName::ddp2, {.bucket_mib = 4096, .broadcast_buffers = true, .sync_batch_norm = false}},
      {StrategyName::ddp, {.bucket_mib = 0}, "configure_ddp() set bucket_mib to 0: 1 to 4096 are allowed"},
      {StrategyName::ddp, {.bucket_mib = 4097}, "configure_ddp() set bucket_mib to 4097: 1 to 4096 are allowed"},
      {StrategyName::ddp2,
       {.sync_batch_norm = true},
       "configure_ddp() set sync_batch_norm, which the strategy ddp2 does not have: name ddp in the job, or leave it "
       "false"},
      {StrategyName::ddp, {.broadcast_buffers = false}, "", true},
      {StrategyName::ddp,
       {.sync_batch_norm = true},
       "configure_ddp() set sync_batch_norm, whose exchanges in the forward pass a rank without samples would not take "
       "part in: leave it false, or strategy.join out of the job",
       true},
  };
  for (const Row& row : rows) {
    const StrategySpec job{.name = row.name, .autotune = true, .join = row.joins, .timeline = true};
    const auto changed = with_settings(job, row.settings);
    if (!changed) {
      EXPECT_EQ(changed.error(), (Error{.kind = ErrorKind::invalid, .message = row.refusal}));
      continue;
    }
    EXPECT_EQ(row.refusal, "");
    StrategySpec expected = job;
    expected.bucket_mib = row.settings.bucket_mib;
    expected.broadcast_buffers = row.settings.broadcast_buffers;
    expected.sync_batch_norm = row.settings.sync_batch_norm;
    EXPECT_EQ(*changed, expected);
  }
}

/// A module whose configure_ddp() is a function of the test.
class ConfiguredModule final : public Module {
 public:
  explicit ConfiguredModule(std::function<void(DdpSettings&)> change) : change_{std::move(change)} {}
  [[nodiscard]] StepOutput training_step(const Batch& /*batch*/, std::int64_t /*batch_index*/) override { return {}; }
  void configure_ddp(DdpSettings& settings) override { change_(settings); }

 private:
  std::function<void(DdpSettings&)> change_;
};

TEST(ConfigureDdp, BeginsWithWhatTheJobSaysAndIsForDdpOfSeveralRanks) {
  fakes::run_ranks(2, [](fakes::RankThread& thread) {
    dist::Group group = group_of(thread);
    const StrategySpec job{.name = StrategyName::ddp, .bucket_mib = 7, .broadcast_buffers = false, .timeline = true};
    ConfiguredModule module{[](DdpSettings& settings) {
      EXPECT_EQ(settings, (DdpSettings{.bucket_mib = 7, .broadcast_buffers = false, .sync_batch_norm = false}));
      settings.bucket_mib = 8;
      settings.sync_batch_norm = true;
    }};
    StrategySpec expected = job;
    expected.bucket_mib = 8;
    expected.sync_batch_norm = true;
    EXPECT_EQ(configure_ddp(module, group, job), Result<StrategySpec>{expected});

    ConfiguredModule of_ddp2{[](DdpSettings& settings) { EXPECT_EQ(settings, DdpSettings{}); }};
    const StrategySpec ddp2{.name = StrategyName::ddp2};
    EXPECT_EQ(configure_ddp(of_ddp2, group, ddp2).value().bucket_mib, 25);

    ConfiguredModule not_asked{[](DdpSettings&) { ADD_FAILURE() << "configure_ddp() was called"; }};
    for (const StrategyName name : {StrategyName::horovod, StrategyName::bagua, StrategyName::sharded}) {
      const StrategySpec other{.name = name};
      EXPECT_EQ(configure_ddp(not_asked, group, other), Result<StrategySpec>{other});
    }
    group.world_size = 1;
    EXPECT_EQ(configure_ddp(not_asked, group, job), Result<StrategySpec>{job});
  });
}

TEST(ConfigureDdp, FailsTheJobOnAllRanksAlikeForSettingsThatDifferOrAreWrong) {
  fakes::run_ranks(3, [](fakes::RankThread& thread) {
    const dist::Group group = group_of(thread);
    ConfiguredModule differing{[&](DdpSettings& settings) { settings.bucket_mib = thread.rank == 2 ? 0 : 25; }};
    EXPECT_THAT([&] { std::ignore = configure_ddp(differing, group, {}); },
                ThrowsMessage<InvalidJob>("configure_ddp() must make the same settings on all ranks: rank 0 has "
                                          "bucket_mib 25, broadcast_buffers true, sync_batch_norm false, rank 2 "
                                          "bucket_mib 0, broadcast_buffers true, sync_batch_norm false"));
    ConfiguredModule wrong{[](DdpSettings& settings) { settings.bucket_mib = 0; }};
    EXPECT_THAT([&] { std::ignore = configure_ddp(wrong, group, {}); },
                ThrowsMessage<InvalidJob>(HasSubstr("bucket_mib to 0")));
  });
}

}  // namespace
}  // namespace trainyard::train
