#include "worker/dist/group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "common/try.hpp"
#include "worker/dist/device_choice.hpp"
#include "worker/dist/gloo_communicator.hpp"
#include "worker/dist/host_staged_backend.hpp"
#include "worker/dist/rendezvous.hpp"
#include "worker/dist/torch_error.hpp"
#include "worker/dist/wait_or_fail.hpp"
#include "worker/rank/tcp.hpp"

namespace trainyard::dist {
namespace {

using Gloo = c10d::ProcessGroupGloo;

constexpr int look_ups_max = 10;
constexpr std::chrono::seconds look_up_interval{1};

/// Retries, because the name has resolved before: a failure now is a short outage of the name server.
Result<std::string> find_own_address(const std::string& master_address, rank::RankLink& link) {
  for (int look_up = 1;; ++look_up) {
    const auto address = rank::local_address_towards(master_address);
    if (address || look_up == look_ups_max || link.group_failure()) return address;
    link.beat();
    std::this_thread::sleep_for(look_up_interval);
  }
}

/// Chooses the interface on the route to rank 0. Gloo would choose the address of the host's name, which is often
/// loopback or in another network.
Result<std::shared_ptr<::gloo::transport::Device>> open_device(const rank::GroupEnvironment& environment,
                                                               rank::RankLink& link) {
  if (const auto interface = rank::process_environment()("GLOO_SOCKET_IFNAME")) {
    return Gloo::createDeviceForInterface(*interface);
  }
  if (environment.world_size == 1) return Gloo::createDeviceForHostname("127.0.0.1");
  const auto address = TRY(find_own_address(environment.master_address, link));
  return Gloo::createDeviceForHostname(address);
}

/// Owns what it needs: Group::connect_ranks and the threads that connect have copies.
class GlooMaker {
 public:
  GlooMaker(const Group& group, std::shared_ptr<::gloo::transport::Device> device, const GroupOptions& options)
      : rank_{group.rank},
        world_size_{group.world_size},
        store_{group.store},
        device_{std::move(device)},
        options_{options} {}

  [[nodiscard]] c10::intrusive_ptr<Gloo> make(const std::string& name, int threads,
                                              std::chrono::milliseconds deadline) const {
    return make_of_some(name, {.rank = rank_, .size = world_size_, .threads = threads}, deadline);
  }

  /// A process group for tensors on the host.
  [[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const std::string& name, std::int64_t rank,
                                                                          std::int64_t size) const {
    auto made = c10::make_intrusive<c10d::ProcessGroup>(store_, static_cast<int>(rank), static_cast<int>(size));
    made->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO,
                     make_of_some(name, {.rank = rank, .size = size, .threads = 2}, options_.collective_deadline));
    made->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
    return made;
  }

  [[nodiscard]] std::int64_t rank() const { return rank_; }
  [[nodiscard]] const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }
  [[nodiscard]] const GroupOptions& options() const { return options_; }

 private:
  struct Members {
    std::int64_t rank = 0;  // this rank's number among them
    std::int64_t size = 1;
    int threads = 1;
  };

  [[nodiscard]] c10::intrusive_ptr<Gloo> make_of_some(const std::string& name, const Members& members,
                                                      std::chrono::milliseconds deadline) const {
    auto options = Gloo::Options::create(options_.rendezvous_deadline);
    options->devices.push_back(device_);
    options->threads = members.threads;
    auto gloo =
        c10::make_intrusive<Gloo>(c10::make_intrusive<c10d::PrefixStore>(name, store_), static_cast<int>(members.rank),
                                  static_cast<int>(members.size), std::move(options));
    // wait_or_fail gives up first; this deadline is only a second safeguard.
    gloo->setTimeout(2 * deadline);
    return gloo;
  }

  std::int64_t rank_;
  std::int64_t world_size_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::shared_ptr<::gloo::transport::Device> device_;
  GroupOptions options_;
};

Error with_network_advice(Error error) {
  if (error.kind == ErrorKind::timeout) {
    error.message +=
        ": let NCCL_SOCKET_IFNAME name a network interface by which all ranks reach each other, and look at what "
        "NCCL_DEBUG=INFO logs";
  }
  return error;
}

/// Makes the Gloo of `to` carry the tensors of the CUDA device too.
void add_staging(c10d::ProcessGroup& to) {
  // As a backend of another kind: torch would take the one that is there for any second one of its kind.
  to.setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::CUSTOM,
                make_host_staged_backend(to.getBackend(c10::DeviceType::CPU)));
}

/// Adds NCCL to `to`. Connecting blocks for as long as a rank does not come or an address is not reached.
Result<void> connect_nccl(c10d::ProcessGroup& to, const std::string& name, const CudaModule& module,
                          const c10::intrusive_ptr<c10d::Store>& group_store, rank::RankLink& link,
                          const GroupOptions& options) {
  auto store = c10::make_intrusive<c10d::PrefixStore>(name, group_store);
  using Backend = c10::intrusive_ptr<c10d::Backend>;
  const auto make = [module = &module, store = std::move(store), rank = to.getRank(), size = to.getSize(),
                     device = *options.cuda_device, timeout = 2 * options.collective_deadline] {
    return module->make_nccl(store, rank, size, device, timeout);
  };
  try {
    auto nccl = TRY(call_or_give_up<Backend>(make, link, options.rendezvous_deadline, "connecting NCCL")
                        .map_error(with_network_advice));
    to.setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::NCCL, std::move(nccl));
  } catch (const std::exception& error) {
    if (failed_part(error) != FailedPart::communication) throw;
    return fail(ErrorKind::unavailable, "connecting NCCL: " + message_of(error));
  }
  return {};
}

Result<const CudaModule*> module_of(const GroupOptions& options) {
  if (options.cuda_module != nullptr) return options.cuda_module;
  return load_cuda_module(rank::process_environment());
}

void add_staging_of_all(Group& group) {
  add_staging(*group.process_group);
  if (!group.pods || group.pods->is_one_pod()) return;
  if (group.pods->own->getSize() > 1) add_staging(*group.pods->own);
  if (group.pods->is_first_rank()) add_staging(*group.pods->first_ranks);
}

/// All ranks of a process group come to it: each rank connects to all, then to its pod, and a first rank to the others.
Result<void> connect_nccl_of_all(Group& group, rank::RankLink& link, const GroupOptions& options) {
  const CudaModule* const module = TRY(module_of(options));
  TRY(connect_nccl(*group.process_group, "nccl", *module, group.store, link, options));
  if (!group.pods || group.pods->is_one_pod()) return {};
  const PodGroups& pods = *group.pods;
  if (pods.own->getSize() > 1) {
    const std::string name = fmt::format("nccl.pod.{}", group.rank - pods.own->getRank());
    TRY(connect_nccl(*pods.own, name, *module, group.store, link, options));
  }
  if (!pods.is_first_rank()) return {};
  return connect_nccl(*pods.first_ranks, "nccl.first_ranks", *module, group.store, link, options);
}

using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroup>;

/// Group::connect_ranks().
Result<ProcessGroup> connect_some(const GlooMaker& maker, rank::RankLink& link, const std::string& name,
                                  std::span<const std::int64_t> ranks) {
  const GroupOptions& options = maker.options();
  const std::int64_t number = std::ranges::find(ranks, maker.rank()) - ranks.begin();
  const auto size = static_cast<std::int64_t>(ranks.size());
  const std::string what = "connecting " + name;
  ProcessGroup made;
  try {
    made = TRY(
        call_or_fail<ProcessGroup>([maker, name, number, size] { return maker.make_process_group(name, number, size); },
                                   link, options.collective_deadline, what));
  } catch (const std::exception& error) {
    if (const auto failure = link.group_failure()) return fail(ErrorKind::cancelled, failure->message);
    return fail(ErrorKind::unavailable, fmt::format("{}: {}", what, message_of(error)));
  }
  if (options.cuda_device && options.has_gloo_alone) add_staging(*made);
  if (options.cuda_device && !options.has_gloo_alone) {
    const CudaModule* const module = TRY(module_of(options));
    TRY(connect_nccl(*made, "nccl." + name, *module, maker.store(), link, options));
  }
  return made;
}

Result<std::optional<PodGroups>> connect_pods(const Group& group, const rank::GroupEnvironment& environment,
                                              const GlooMaker& maker) {
  const Pod own{.first_rank = group.rank - environment.local_rank, .size = environment.local_world_size};
  const auto texts = TRY(group.communicator->all_gather(to_text(own)));
  auto pods = TRY(agree_on_pods(texts));
  if (pods.size() == texts.size()) return std::nullopt;
  return make_pod_groups(std::move(pods), group.process_group,
                         [&maker](const std::string& name, std::int64_t rank, std::int64_t size) {
                           return maker.make_process_group(name, rank, size);
                         });
}

Result<void> connect(Group& group, const rank::GroupEnvironment& environment, rank::RankLink& link,
                     const GroupOptions& options) {
  auto device = TRY(open_device(environment, link));
  const GlooMaker maker{group, std::move(device), options};

  group.process_group = maker.make_process_group("gloo", group.rank, group.world_size);
  if (group.world_size == 1) {
    group.communicator = std::make_unique<checkpoint::SingleCommunicator>();
    group.checkpoint_communicator = std::make_unique<checkpoint::SingleCommunicator>();
  } else {
    group.communicator = make_gloo_communicator(maker.make("communicator", 1, options.collective_deadline),
                                                options.collective_deadline, link, UsedBy::training_thread);
    group.checkpoint_communicator =
        make_gloo_communicator(maker.make("checkpoint", 1, options.checkpoint_deadline), options.checkpoint_deadline,
                               link, UsedBy::background_thread);
    if (options.has_averaging_reducer) {
      group.averaging_reducer =
          make_gloo_reducer(maker.make("averaging", 1, options.collective_deadline), options.collective_deadline, link);
    }
  }
  // Before any rank enters NCCL, which would wait without end for a rank that has no GPU.
  TRY(agree_on_device_kind(options.cuda_device.has_value(), *group.communicator));
  if (options.has_pods) group.pods = TRY(connect_pods(group, environment, maker));
  group.connect_ranks = [maker, &link](const std::string& name, std::span<const std::int64_t> ranks) {
    return connect_some(maker, link, name, ranks);
  };
  return {};
}

}  // namespace

Result<Group> form_group(const rank::GroupEnvironment& environment, rank::RankLink& link, const GroupOptions& options) {
  if (!environment.rank) {
    return fail(ErrorKind::invalid,
                fmt::format("RANK is not set although LOCAL_WORLD_SIZE is {}: start this program by trainyard-worker, "
                            "which starts one process for each rank",
                            environment.local_world_size));
  }
  Group group;
  group.rank = *environment.rank;
  group.world_size = environment.world_size;
  // With launchers, these keep the rendezvous deadline: their ranks may come later, while they still load data.
  const auto deadline = environment.has_launcher ? options.collective_deadline : options.rendezvous_deadline;
  const auto store = TRY(open_rendezvous_store(environment, group.rank, deadline, link));
  const RollCall call{.rank = group.rank,
                      .world_size = group.world_size,
                      .deadline = deadline,
                      .logs = !environment.has_launcher,
                      .is_standing_store = environment.uses_agent_store};
  group.store = TRY(answer_roll_call(store, call, link));
  try {
    TRY(connect(group, environment, link, options));
  } catch (const std::exception& error) {
    if (const auto failure = link.group_failure()) return fail(ErrorKind::cancelled, failure->message);
    return fail(ErrorKind::unavailable, "connecting to the other ranks: " + message_of(error));
  }
  if (options.cuda_device && options.has_gloo_alone) add_staging_of_all(group);
  if (options.cuda_device && !options.has_gloo_alone) TRY(connect_nccl_of_all(group, link, options));
  group.process_group->setGroupName("trainyard");
  return group;
}

}  // namespace trainyard::dist
