#pragma once

#include "worker/launcher/peer_group.hpp"

namespace trainyard::launcher {

/// A group whose ranks are all here: nobody to wait for, and the first failure is the verdict.
class LoneGroup final : public PeerGroup {
 public:
  void report_failure(const GroupFailure& failure, Instant /*now*/) override {
    if (!verdict_) verdict_ = failure;
  }
  void report_done(Instant /*now*/) override {}
  [[nodiscard]] const std::optional<GroupFailure>& verdict() const override { return verdict_; }
  [[nodiscard]] std::string waiting_for(Instant /*now*/) const override { return ""; }

 private:
  std::optional<GroupFailure> verdict_;
};

}  // namespace trainyard::launcher
