#include "worker/train/process_sets.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "common/text.hpp"
#include "common/try.hpp"
#include "include/trainyard/options.hpp"
#include "worker/observe/images.hpp"
#include "worker/rank/collective_name.hpp"
#include "worker/train/process_set_collectives.hpp"
#include "worker/train/program_call.hpp"

namespace trainyard::train {
namespace {

constexpr std::string_view configure_sets = "configure_process_sets()";
constexpr std::size_t set_text_shown_max = 200;

tl::unexpected<Error> refuse_sets(std::string_view what) {
  return fail(ErrorKind::invalid, fmt::format("{} returned {}", configure_sets, what));
}

Result<void> check_set(const std::string& name, const std::vector<std::int64_t>& ranks, std::int64_t world_size) {
  if (const auto named = observe::check_name(name); !named)
    return refuse_sets("a process set with a wrong name: " + named.error().message);
  if (ranks.empty())
    return refuse_sets(fmt::format("the process set \"{}\" without ranks: a set has at least one", name));
  std::set<std::int64_t> seen;
  for (const std::int64_t rank : ranks) {
    if (rank < 0 || rank >= world_size) {
      return refuse_sets(fmt::format("the process set \"{}\" with the rank {}: this job's ranks are 0 to {}", name,
                                     rank, world_size - 1));
    }
    if (!seen.insert(rank).second) {
      return refuse_sets(
          fmt::format("the process set \"{}\" with the rank {} twice: a set names each of its ranks once", name, rank));
    }
  }
  return {};
}

/// The lines of to_text(), one for each set.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream{text};
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string line_text(const std::vector<std::string>& lines, std::size_t index) {
  if (lines.empty()) return "no set";
  if (index >= lines.size()) return fmt::format("only {} of them", lines.size());
  return keep_beginning(lines[index], set_text_shown_max);
}

}  // namespace

Result<void> check_process_sets(const RanksBySet& sets, std::int64_t world_size) {
  if (sets.size() > process_sets_max)
    return refuse_sets(fmt::format("{} process sets: at most {} are allowed", sets.size(), process_sets_max));
  for (const auto& [name, ranks] : sets) TRY(check_set(name, ranks, world_size));
  return {};
}

std::string to_text(const RanksBySet& sets) {
  std::string text;
  for (auto [name, ranks] : sets) {
    std::ranges::sort(ranks);
    text += fmt::format("{:?}: {}\n", name, ranks);  // Without a line's end in the name.
  }
  return text;
}

Result<void> compare_process_sets(std::span<const std::string> texts) {
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const std::vector<std::string> first = lines_of(texts[0]);
    const std::vector<std::string> other = lines_of(texts[rank]);
    const std::size_t index = std::ranges::mismatch(first, other).in1 - first.begin();
    return fail(
        ErrorKind::invalid,
        fmt::format("{} must return the same sets on all ranks: of the sets by name, number {} is {} on rank 0, "
                    "and {} on rank {}",
                    configure_sets, index + 1, line_text(first, index), line_text(other, index), rank));
  }
  return {};
}

const ProcessSet& ProcessSets::at(std::string_view name) const {
  if (const auto found = sets_.find(name); found != sets_.end()) return *found->second;
  std::vector<std::string> known;
  for (const auto& [each, set] : sets_) known.push_back(fmt::format("\"{}\"", each));
  throw std::invalid_argument{fmt::format("process_set(\"{}\"): there is no such process set; {} returned {}", name,
                                          configure_sets,
                                          known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")))};
}

Result<ProcessSets> connect_process_sets(Module& module, const dist::Group& group, const strategy::WaitForWork& wait) {
  RanksBySet ranks_by_set;
  {
    const ProgramCall call{configure_sets};
    ranks_by_set = module.configure_process_sets(group.world_size);
  }
  const auto texts = TRY(group.communicator->all_gather(to_text(ranks_by_set)));
  // Compared first: all ranks then find the same mistake in their sets.
  auto checked = compare_process_sets(texts);
  if (checked) checked = check_process_sets(ranks_by_set, group.world_size);
  if (!checked) throw InvalidJob{checked.error().message};
  ProcessSets sets;
  for (auto& [name, ranks] : ranks_by_set) {
    std::ranges::sort(ranks);
    c10::intrusive_ptr<c10d::ProcessGroup> process_group;
    if (ranks.size() > 1 && std::ranges::binary_search(ranks, group.rank))
      process_group = TRY(group.connect_ranks(rank::name_of_set(name, static_cast<std::int64_t>(ranks.size())), ranks));
    sets.add(name, make_process_set({.name = name,
                                     .ranks = std::move(ranks),
                                     .rank = group.rank,
                                     .process_group = std::move(process_group),
                                     .wait = wait}));
  }
  return sets;
}

}  // namespace trainyard::train
