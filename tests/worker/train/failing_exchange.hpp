#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/group/communicator.hpp"
#include "tests/worker/fakes/plain_wait.hpp"
#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::train {

/// Makes one of a rank's exchanges with the others fail on that rank alone, once it has taken place. An exchange is a
/// wait for a collective, or a call of the communicator. Outlives what it makes. Used from one thread.
class FailingExchange {
 public:
  /// Calls `on_failure` before exchange `number` (from 1) fails with an error of `kind`. 0: none fails.
  explicit FailingExchange(
      std::int64_t number, std::function<void()> on_failure = [] {}, ErrorKind kind = ErrorKind::unavailable)
      : number_{number}, on_failure_{std::move(on_failure)}, kind_{kind} {}

  [[nodiscard]] strategy::WaitForWork wait() {
    return [this](const c10::intrusive_ptr<c10d::Work>& work, std::string_view what) {
      return ended(fakes::plain_wait(work, what));
    };
  }
  [[nodiscard]] std::unique_ptr<checkpoint::Communicator> watched(std::unique_ptr<checkpoint::Communicator> inner) {
    return std::make_unique<Watched>(*this, std::move(inner));
  }
  /// The number of exchanges so far.
  [[nodiscard]] std::int64_t count() const { return count_; }

 private:
  class Watched final : public checkpoint::Communicator {
   public:
    Watched(FailingExchange& exchange, std::unique_ptr<checkpoint::Communicator> inner)
        : exchange_{exchange}, inner_{std::move(inner)} {}
    [[nodiscard]] std::int64_t rank() const override { return inner_->rank(); }
    [[nodiscard]] std::int64_t world_size() const override { return inner_->world_size(); }
    [[nodiscard]] Result<std::string> broadcast(std::string_view text, std::int64_t root) override {
      return exchange_.ended(inner_->broadcast(text, root));
    }
    [[nodiscard]] Result<std::vector<std::string>> all_gather(std::string_view text) override {
      return exchange_.ended(inner_->all_gather(text));
    }
    [[nodiscard]] Result<void> broadcast_parts(std::span<const checkpoint::BroadcastPart> parts) override {
      return exchange_.ended(inner_->broadcast_parts(parts));
    }

   private:
    FailingExchange& exchange_;
    std::unique_ptr<checkpoint::Communicator> inner_;
  };

  template <typename T>
  Result<T> ended(Result<T> outcome) {
    if (++count_ != number_) return outcome;
    on_failure_();
    return fail(kind_, "connection reset by peer");
  }

  std::int64_t number_;
  std::function<void()> on_failure_;
  ErrorKind kind_;
  std::int64_t count_ = 0;
};

}  // namespace trainyard::train
