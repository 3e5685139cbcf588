#include "worker/dist/pods.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace trainyard::dist {
namespace {

constexpr std::size_t shown_characters_max = 40;

/// Nothing for text that to_text() does not write, and for a pod that is not within `world_size` ranks.
std::optional<Pod> parse_pod(std::string_view text, std::int64_t world_size) {
  Pod pod;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, pod.first_rank);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != ' ') return std::nullopt;
  const auto size = std::from_chars(first.ptr + 1, end, pod.size);
  if (size.ec != std::errc{} || size.ptr != end) return std::nullopt;
  const bool is_within =
      pod.first_rank >= 0 && pod.first_rank < world_size && pod.size >= 1 && pod.size <= world_size - pod.first_rank;
  return is_within ? std::optional{pod} : std::nullopt;
}

std::string ranks_of(const Pod& pod) {
  return pod.size == 1 ? fmt::format("rank {}", pod.first_rank)
                       : fmt::format("ranks {} to {}", pod.first_rank, pod.first_rank + pod.size - 1);
}

tl::unexpected<Error> refuse(std::string_view what) {
  return fail(ErrorKind::invalid,
              fmt::format("{}: training.strategy.hierarchical needs the ranks of a pod to have numbers one after the "
                          "other; look at RANK, LOCAL_RANK and LOCAL_WORLD_SIZE of these ranks",
                          what));
}

}  // namespace

std::string to_text(const Pod& pod) {
  return fmt::format("{} {}", pod.first_rank, pod.size);
}

Result<std::vector<Pod>> agree_on_pods(std::span<const std::string> texts) {
  const auto world_size = static_cast<std::int64_t>(texts.size());
  std::vector<Pod> of_ranks;
  for (const std::string& text : texts) {
    const auto pod = parse_pod(text, world_size);
    if (!pod) {
      return refuse(fmt::format("rank {} of {} says '{}' of the first rank and the size of its pod", of_ranks.size(),
                                world_size, text.substr(0, shown_characters_max)));
    }
    of_ranks.push_back(*pod);
  }
  std::vector<Pod> pods;
  for (std::int64_t first = 0; first < world_size; first += pods.back().size) {
    const Pod& pod = of_ranks[static_cast<std::size_t>(first)];
    if (pod.first_rank != first) {
      return refuse(pod.first_rank < first
                        ? fmt::format("rank {} says that its pod has {}, of which rank {} is in another pod", first,
                                      ranks_of(pod), pod.first_rank)
                        : fmt::format("rank {} says that its pod has {}, which begins after it", first, ranks_of(pod)));
    }
    for (std::int64_t rank = first; rank < first + pod.size; ++rank) {
      const Pod& other = of_ranks[static_cast<std::size_t>(rank)];
      if (other != pod)
        return refuse(fmt::format("rank {} says that its pod has {}, and rank {} that its pod has {}", first,
                                  ranks_of(pod), rank, ranks_of(other)));
    }
    pods.push_back(pod);
  }
  return pods;
}

PodGroups make_pod_groups(std::vector<Pod> pods, const c10::intrusive_ptr<c10d::ProcessGroup>& all,
                          const MakeProcessGroup& make) {
  const std::int64_t rank = all->getRank();
  const auto own = std::ranges::find_if(
      pods, [rank](const Pod& pod) { return pod.first_rank <= rank && rank < pod.first_rank + pod.size; });
  const std::int64_t index = own - pods.begin();
  const auto count = static_cast<std::int64_t>(pods.size());
  const auto make_or_stand_in = [&make](bool is_made, const std::string& name, std::int64_t number, std::int64_t size) {
    return is_made ? make(name, number, size)
                   : c10::make_intrusive<c10d::ProcessGroup>(static_cast<int>(number), static_cast<int>(size));
  };
  const std::int64_t number_in_pod = rank - own->first_rank;
  PodGroups groups;
  groups.own = count == 1
                   ? all
                   : make_or_stand_in(own->size > 1, fmt::format("pod.{}", own->first_rank), number_in_pod, own->size);
  groups.first_ranks = make_or_stand_in(count > 1 && number_in_pod == 0, "first_ranks", index, count);
  groups.pods = std::move(pods);
  return groups;
}

}  // namespace trainyard::dist
