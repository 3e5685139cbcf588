#pragma once

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <csignal>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "checkpoint/group/communicator.hpp"
#include "tests/fakes/thread_group.hpp"
#include "tests/worker/fakes/gathering_reducer.hpp"
#include "tests/worker/fakes/threads_as_ranks.hpp"

namespace trainyard::fakes {

/// One rank of a group whose ranks are threads of this process, with a real Gloo group over loopback.
struct RankThread {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;
  std::unique_ptr<checkpoint::Communicator> communicator;
  std::unique_ptr<checkpoint::Communicator> checkpoint_communicator;
  std::unique_ptr<dist::HostReducer> averaging_reducer;
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
  let_threads_be_ranks();
  std::signal(SIGPIPE, SIG_IGN);  // As in a rank's program: a write of Gloo's to a rank that has ended is an error.
  const auto store = c10::make_intrusive<c10d::HashStore>();
  MeetingPlace place{world_size};
  MeetingPlace checkpoint_place{world_size};
  MeetingPlace averaging_place{world_size};
  // A rank whose body ends at once would close its connections while another one still opens its own.
  std::latch all_are_connected{world_size};
  std::vector<std::jthread> threads;
  for (std::int64_t rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      RankThread context{.rank = rank,
                         .world_size = world_size,
                         .store = store,
                         .process_group = make_gloo_group(store, rank, world_size),
                         .communicator = std::make_unique<ThreadCommunicator>(rank, place),
                         .checkpoint_communicator = std::make_unique<ThreadCommunicator>(rank, checkpoint_place),
                         .averaging_reducer = std::make_unique<GatheringReducer>(rank, averaging_place)};
      all_are_connected.arrive_and_wait();
      body(context);
      place.leave();
      checkpoint_place.leave();
      averaging_place.leave();
    });
  }
}

}  // namespace trainyard::fakes
