#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/group/communicator.hpp"
#include "common/check.hpp"

namespace trainyard::fakes {

/// The meeting point of the ranks of a group that are threads of one process. Once a rank has left, every wait for it
/// ends with `unavailable`. Any thread may call.
class MeetingPlace {
 public:
  explicit MeetingPlace(std::int64_t world_size)
      : texts_(static_cast<std::size_t>(world_size)) {}  // Braces would make a list.

  /// Waits for all ranks; returns every rank's text.
  Result<std::vector<std::string>> exchange(std::int64_t rank, std::string_view text) {
    std::unique_lock lock{mutex_};
    texts_[static_cast<std::size_t>(rank)] = text;
    const std::int64_t round = round_;
    if (++arrived_ == texts_.size()) {
      last_texts_ = texts_;
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    }
    // A rank has left, so no rank may wait for it.
    const bool came = changed_.wait_for(lock, std::chrono::minutes{1}, [&] { return round_ != round || left_ > 0; });
    check(came, "a rank waits for one that neither comes nor leaves");
    if (round_ == round) return fail(ErrorKind::unavailable, "a peer is lost");
    return last_texts_;
  }

  void leave() {
    const std::scoped_lock lock{mutex_};
    ++left_;
    changed_.notify_all();
  }

  [[nodiscard]] std::int64_t world_size() const { return static_cast<std::int64_t>(texts_.size()); }

 private:
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<std::string> texts_;
  std::vector<std::string> last_texts_;
  std::size_t arrived_ = 0;
  std::size_t left_ = 0;
  std::int64_t round_ = 0;
};

class ThreadCommunicator final : public checkpoint::Communicator {
 public:
  ThreadCommunicator(std::int64_t rank, MeetingPlace& place) : rank_{rank}, place_{place} {}
  [[nodiscard]] std::int64_t rank() const override { return rank_; }
  [[nodiscard]] std::int64_t world_size() const override { return place_.world_size(); }
  [[nodiscard]] Result<std::string> broadcast(std::string_view text, std::int64_t root) override {
    return place_.exchange(rank_, text).map([root](const std::vector<std::string>& texts) {
      return texts[static_cast<std::size_t>(root)];
    });
  }
  [[nodiscard]] Result<std::vector<std::string>> all_gather(std::string_view text) override {
    return place_.exchange(rank_, text);
  }
  [[nodiscard]] Result<void> broadcast_parts(std::span<const checkpoint::BroadcastPart> parts) override {
    for (const checkpoint::Message& message : checkpoint::messages_of(parts, spread_bytes_max)) {
      const checkpoint::BroadcastPart& part = parts[message.part];
      std::string text(message.bytes(), '\0');
      checkpoint::copy_out(part, message, std::as_writable_bytes(std::span{text}));
      const auto heard = broadcast(text, part.root);
      if (!heard) return tl::unexpected(heard.error());
      if (rank_ != part.root) checkpoint::copy_in(part, message, std::as_bytes(std::span{*heard}));
    }
    return {};
  }

 private:
  static constexpr std::uint64_t spread_bytes_max = std::uint64_t{1} << 20;

  std::int64_t rank_;
  MeetingPlace& place_;
};

/// Ranks as threads of one process. A rank whose function returns has left.
class ThreadGroup {
 public:
  explicit ThreadGroup(std::int64_t world_size) : place_{world_size} {}

  /// Runs `rank_main` on every rank, each on its own thread, and returns when all have ended.
  void run(const std::function<void(checkpoint::Communicator&)>& rank_main) {
    std::vector<std::jthread> ranks;
    for (std::int64_t rank = 0; rank < place_.world_size(); ++rank) {
      ranks.emplace_back([this, rank, &rank_main] {
        ThreadCommunicator communicator{rank, place_};
        rank_main(communicator);
        place_.leave();
      });
    }
  }

 private:
  MeetingPlace place_;
};

}  // namespace trainyard::fakes
