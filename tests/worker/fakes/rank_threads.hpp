#pragma once

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "worker/dist/communicator.hpp"

namespace trainyard::fakes {

/// A blackboard that the threads of one test meet at.
class Blackboard {
 public:
  explicit Blackboard(std::int64_t world_size) : texts_(static_cast<std::size_t>(world_size)) {}

  std::vector<std::string> exchange(std::int64_t rank, std::string_view text) {
    std::unique_lock lock{mutex_};
    const std::int64_t round = round_;
    texts_[static_cast<std::size_t>(rank)] = text;
    if (++written_ == texts_.size()) {
      result_ = texts_;
      written_ = 0;
      ++round_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return round_ != round; });
    }
    return result_;
  }

 private:
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<std::string> texts_;
  std::vector<std::string> result_;  // of the last round; the next ends only after all have read it
  std::size_t written_ = 0;
  std::int64_t round_ = 0;
};

class ThreadCommunicator final : public dist::Communicator {
 public:
  ThreadCommunicator(std::int64_t rank, std::int64_t world_size, Blackboard& board)
      : rank_{rank}, world_size_{world_size}, board_{board} {}
  [[nodiscard]] std::int64_t rank() const override { return rank_; }
  [[nodiscard]] std::int64_t world_size() const override { return world_size_; }
  [[nodiscard]] Result<std::string> broadcast(std::string_view text, std::int64_t root) override {
    return board_.exchange(rank_, text)[static_cast<std::size_t>(root)];
  }
  [[nodiscard]] Result<std::vector<std::string>> all_gather(std::string_view text) override {
    return board_.exchange(rank_, text);
  }

 private:
  std::int64_t rank_;
  std::int64_t world_size_;
  Blackboard& board_;
};

/// One rank of a group whose ranks are threads of this process, with a real Gloo group over loopback.
struct RankThread {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;
  std::unique_ptr<dist::Communicator> communicator;
};

inline c10::intrusive_ptr<c10d::ProcessGroup> make_gloo_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                              std::int64_t rank, std::int64_t world_size) {
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, static_cast<int>(rank), static_cast<int>(world_size),
                                                          std::move(options));
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, static_cast<int>(rank), static_cast<int>(world_size));
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, std::move(gloo));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  return group;
}

/// Runs `body` once for each rank, each on a thread of its own, and returns when all have ended.
inline void run_ranks(std::int64_t world_size, const std::function<void(RankThread&)>& body) {
  // c10d's flight recorder is one for the process and breaks when ranks are threads of it. Read when the first group is
  // made.
  setenv("TORCH_FR_BUFFER_SIZE", "0", 1);  // NOLINT(concurrency-mt-unsafe): no rank thread runs yet.
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Blackboard board{world_size};
  std::vector<std::jthread> threads;
  for (std::int64_t rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      RankThread context{.rank = rank,
                         .world_size = world_size,
                         .process_group = make_gloo_group(store, rank, world_size),
                         .communicator = std::make_unique<ThreadCommunicator>(rank, world_size, board)};
      body(context);
    });
  }
}

}  // namespace trainyard::fakes
