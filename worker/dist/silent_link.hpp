#pragma once

#include <cstdlib>
#include <optional>

#include "worker/rank/rank_link.hpp"

namespace trainyard::dist {

/// Forwards to `link`, which outlives the object, all but reports and beats. For the waits of a background thread.
class SilentLink final : public rank::RankLink {
 public:
  explicit SilentLink(rank::RankLink& link) : link_{link} {}
  void report(const rank::RankProgress& /*progress*/) override {}
  void beat() override {}
  [[nodiscard]] bool is_stop_requested() const override { return link_.is_stop_requested(); }
  [[nodiscard]] std::optional<rank::CheckpointRequest> checkpoint_request() const override {
    return link_.checkpoint_request();
  }
  [[nodiscard]] std::optional<rank::RankEnd> group_failure() const override { return link_.group_failure(); }
  [[noreturn]] void exit(const rank::RankEnd& end) override {
    link_.exit(end);
    std::abort();  // g++ 12 forgets [[noreturn]] when it devirtualises the call.
  }

 private:
  rank::RankLink& link_;
};

}  // namespace trainyard::dist
