#include "cli/checkpoints/choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "common/try.hpp"

namespace trainyard::cli {
namespace {

using checkpoint::Catalogue;
using checkpoint::folder_key;
using checkpoint::Listed;
using checkpoint::Standing;

tl::unexpected<Error> none_found(const Catalogue& catalogue, const std::string& what) {
  if (catalogue.checkpoints.empty()) return fail(ErrorKind::not_found, "there are no checkpoints here");
  std::set<std::int64_t> steps;
  for (const Listed& listed : catalogue.checkpoints) steps.insert(listed.id.step);
  return fail(ErrorKind::not_found, fmt::format("{}; there are steps {}", what, fmt::join(steps, ", ")));
}

Result<const Listed*> find_named(const Catalogue& catalogue, const Wish& wish) {
  if (wish.id && wish.step && wish.id->step != *wish.step) {
    return fail(ErrorKind::invalid,
                fmt::format("the URI names step {} and --step says {}: leave one out", wish.id->step, *wish.step));
  }
  const Listed* found = wish.id ? catalogue.find(*wish.id) : catalogue.of_step(*wish.step);
  if (found != nullptr) return found;
  return none_found(catalogue, wish.id ? fmt::format("there is no checkpoint {}", folder_key(*wish.id))
                                       : fmt::format("there is no checkpoint of step {}", *wish.step));
}

std::vector<std::string> notes_on_named(const Listed& listed) {
  if (listed.standing != Standing::superseded) return {};
  return {fmt::format("{} is superseded: a later run resumed from an earlier step", folder_key(listed.id))};
}

/// The newest checkpoint that is not superseded, damaged or not; nullptr: none.
const Listed* newest_counting(const Catalogue& catalogue) {
  const Listed* best = nullptr;
  for (const Listed& listed : catalogue.checkpoints) {
    if (listed.is_candidate && (best == nullptr || best->id < listed.id)) best = &listed;
  }
  return best;
}

bool is_named(const Wish& wish) {
  return wish.id || wish.step;
}

}  // namespace

Result<Choice> choose(const Catalogue& catalogue, const Wish& wish) {
  if (is_named(wish)) {
    return find_named(catalogue, wish).map([](const Listed* listed) {
      return Choice{.listed = listed, .notes = notes_on_named(*listed)};
    });
  }
  Choice choice{.listed = catalogue.newest(), .notes = {}};
  for (const Listed& listed : catalogue.checkpoints) {
    const bool is_skipped = listed.is_candidate && (choice.listed == nullptr || choice.listed->id < listed.id);
    if (is_skipped) choice.notes.push_back(fmt::format("{} is skipped: {}", folder_key(listed.id), listed.reason));
  }
  if (choice.listed != nullptr) return choice;
  if (!choice.notes.empty())
    return fail(ErrorKind::corrupt, fmt::format("no checkpoint here is whole: {}", fmt::join(choice.notes, "; ")));
  return none_found(catalogue, "there is no complete checkpoint here");
}

Result<Choice> choose_readable(const Catalogue& catalogue, const Wish& wish) {
  auto choice = TRY(choose(catalogue, wish));
  const Listed& listed = *choice.listed;
  if (listed.standing == Standing::damaged)
    return fail(ErrorKind::corrupt, fmt::format("{} is damaged: {}", folder_key(listed.id), listed.reason));
  if (listed.standing == Standing::unfinished) {
    return fail(ErrorKind::corrupt,
                fmt::format("{} is unfinished: it has no manifest. It is still being written, or its run died",
                            folder_key(listed.id)));
  }
  return choice;
}

Result<Choice> choose_to_verify(const Catalogue& catalogue, const Wish& wish) {
  if (is_named(wish)) return choose(catalogue, wish);
  if (const Listed* newest = newest_counting(catalogue)) return Choice{.listed = newest, .notes = {}};
  return none_found(catalogue, "there is no complete checkpoint here");
}

Result<Choice> choose_to_remove(const Catalogue& catalogue, const Wish& wish) {
  if (!is_named(wish))
    return fail(ErrorKind::invalid, "name a checkpoint to remove: add --step N, or give its own URI (.../step-N/g-G)");
  auto choice = choose(catalogue, wish);
  if (!choice || wish.id) return choice;
  std::vector<std::string> twins;
  for (const Listed& listed : catalogue.checkpoints) {
    if (listed.id.step == *wish.step) twins.push_back(folder_key(listed.id));
  }
  if (twins.size() < 2) return choice;
  return fail(ErrorKind::invalid,
              fmt::format("several checkpoints have step {}: name one by its own URI, which ends in {}", *wish.step,
                          fmt::join(twins, " or ")));
}

}  // namespace trainyard::cli
