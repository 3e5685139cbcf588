#include "worker/launcher/peer_link.hpp"

#include "common/try.hpp"
#include "worker/launcher/hub_link.hpp"
#include "worker/launcher/spoke_link.hpp"
#include "worker/rank/tcp.hpp"

namespace trainyard::launcher {
namespace {

/// A group whose ranks are all in this pod: it waits for nobody, and its first failure is the verdict.
class LoneGroup final : public PeerGroup {
 public:
  explicit LoneGroup(const PeerSettings& settings) : settings_{settings} {}

  void report_failure(const GroupFailure& failure, Instant /*now*/) override {
    if (!verdict_) verdict_ = failure;
  }
  void report_done(Instant /*now*/) override {}
  void report_long_waits(std::vector<LongWait> waits, Instant now) override {
    const auto failure =
        mismatch_watch_.look(mismatch_of(waits, settings_.self.world_size), now, settings_.mismatch_deadline);
    if (failure) report_failure(*failure, now);
  }
  [[nodiscard]] const std::optional<GroupFailure>& verdict() const override { return verdict_; }
  [[nodiscard]] std::string waiting_for(Instant /*now*/) const override { return ""; }

 private:
  PeerSettings settings_;
  MismatchWatch mismatch_watch_;
  std::optional<GroupFailure> verdict_;
};

class NoLink final : public PeerLink {
 public:
  explicit NoLink(const PeerSettings& settings) : group_{settings} {}
  void add_to(PollSet& /*files*/) const override {}
  void run(const PollSet& /*ready*/, Instant /*now*/) override {}
  [[nodiscard]] PeerGroup& group() override { return group_; }
  void finish() override {}
  [[nodiscard]] bool is_finished() const override { return true; }

 private:
  LoneGroup group_;
};

}  // namespace

Result<std::unique_ptr<PeerLink>> open_peer_link(const rank::GroupEnvironment& environment,
                                                 const PeerSettings& settings, Instant now) {
  if (settings.self.rank_count == environment.world_size) return std::make_unique<NoLink>(settings);
  if (settings.self.first_rank > 0) return std::make_unique<SpokeLink>(environment, settings, now);
  const rank::Reach reach = rank::reach_of(environment.master_address);
  auto listener = TRY(rank::listen_on(reach, environment.peer_port, "rank 0's launcher (TRAINYARD_PEER_PORT)"));
  return std::make_unique<HubLink>(std::move(listener), settings, now);
}

}  // namespace trainyard::launcher
