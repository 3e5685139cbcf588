#include "checkpoint/run/restore.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "checkpoint/format/manifest.hpp"
#include "checkpoint/run/agreement.hpp"
#include "checkpoint/run/fence.hpp"
#include "checkpoint/run/liveness.hpp"
#include "checkpoint/run/local_tier.hpp"
#include "checkpoint/run/search.hpp"
#include "checkpoint/run/state_reading.hpp"
#include "common/logging.hpp"
#include "common/try.hpp"

namespace trainyard::checkpoint {
namespace {

// Each other run that starts at the same moment takes at most one generation from this one.
constexpr int claim_tries_max = 16;
// A fenced run finishes at most the save that is under way.
constexpr int refreshes_max = 4;

nlohmann::json offer_json(const Search::Offer& offer) {
  nlohmann::json object{
      {"manifest", offer.manifest_text}, {"skipped", offer.skipped}, {"hasLost", offer.has_skipped_complete}};
  if (offer.local) {
    object["local"] = {{"step", offer.local->id.step},
                       {"generation", offer.local->id.generation},
                       {"nonce", offer.local->nonce},
                       {"keepers", offer.local->keepers}};
  }
  return object;
}

Search::Offer read_offer(const nlohmann::json& object) {
  Search::Offer offer{.local = {},
                      .manifest_text = object.at("manifest"),
                      .skipped = object.at("skipped"),
                      .has_skipped_complete = object.at("hasLost")};
  if (const auto local = object.find("local"); local != object.end()) {
    offer.local = Candidate{.id = {.step = local->at("step"), .generation = local->at("generation")},
                            .nonce = local->at("nonce"),
                            .keepers = local->at("keepers")};
  }
  return offer;
}

Result<Search::Offer> share_offer(const RunContext& context, Result<Search>& search) {
  Result<nlohmann::json> mine;
  if (context.is_rank0()) mine = search.and_then([](Search& s) { return s.next(); }).map(offer_json);
  return broadcast_from_rank0(context.communicator, mine).map(read_offer);
}

constexpr std::size_t reasons_max = 8;

// Logs all that is wrong with the nodes' folders in one line.
void warn_of_copies(std::vector<std::string> reasons) {
  if (reasons.empty()) return;
  const std::size_t count = reasons.size();
  reasons.resize(std::min(count, reasons_max));
  logging::warn("local checkpoints are not used",
                {{"count", count}, {"error", fmt::format("{}", fmt::join(reasons, "; "))}});
}

Result<LocalView> list_copies(const RunContext& context) {
  return context.local == nullptr ? LocalView{} : context.local->list_copies();
}

// Empty when every rank has its state, else the damage that one rank found. From a remote store the group fetches the
// bytes that all ranks need once. From a near store each rank reads all of its state itself, which is quicker than the
// exchange.
Result<std::string> load_together(const RunContext& context, storage::Store& store, const Manifest& manifest,
                                  std::span<const HostEntry> entries) {
  const std::int64_t rank = context.communicator.rank();
  // Rank 0 decides for all ranks: the exchange is collective, and another rank may mount the folder differently.
  const auto is_cached_on_node =
      TRY(broadcast_from_rank0(context.communicator, nlohmann::json(store.is_cached_on_node())));
  const bool is_shared = context.communicator.world_size() > 1 && !is_cached_on_node.get<bool>();
  const auto plan =
      check_entries(manifest, entries).and_then([&] { return plan_reading(store, manifest, rank, entries); });
  const auto read = plan.and_then([&](const StateReading& reading) {
    return is_shared ? read_share(store, manifest, rank, context.communicator.world_size(), reading)
                     : read_share(store, manifest, /*rank=*/0, /*world_size=*/1, reading);
  });
  Result<nlohmann::json> mine = nlohmann::json("");
  if (!read && is_damage(read.error().kind)) mine = nlohmann::json(read.error().message);
  if (!read && !is_damage(read.error().kind)) mine = tl::unexpected(read.error());
  const auto damages = TRY(gather_all(context.communicator, mine));
  const auto first = std::ranges::find_if(damages, [](const auto& damage) { return damage != ""; });
  if (first != damages.end()) return first->get<std::string>();
  if (!is_shared) return std::string{};
  return exchange_shares(context.communicator, *plan).map([] { return std::string{}; });
}

// The outcome of one search. Nothing in `restored`: no candidate is whole.
struct Loaded {
  std::optional<CheckpointId> id;
  std::optional<Restored> restored;
  std::vector<std::string> skipped;
  bool has_skipped_complete = false;  // A skipped candidate had been complete.
};

Restored restored_of(const Manifest& manifest, std::string uri, bool is_local, std::vector<std::string> skipped) {
  return {.step = manifest.id.step,
          .uri = std::move(uri),
          .values = manifest.values,
          .is_local = is_local,
          .world_size = static_cast<std::int64_t>(manifest.receipts.size()),
          .is_final = manifest.is_final,
          .skipped = std::move(skipped)};
}

// True when `candidate` was loaded into `loaded`. Otherwise the search offers the undamaged copies of the candidate, if
// any, next.
Result<bool> load_copy(const RunContext& context, Result<Search>& search, const Candidate& candidate,
                       std::span<const HostEntry> entries, Loaded& loaded) {
  auto load = TRY(context.local->load(candidate, entries));
  const std::string uri = context.local->uri_of(candidate.id);
  if (load.manifest) {
    loaded.id = candidate.id;
    loaded.restored = restored_of(*load.manifest, uri, /*is_local=*/true, loaded.skipped);
    return true;
  }
  loaded.skipped.push_back(fmt::format("{}: {}", uri, load.reason));
  if (search) search->skip_keepers(candidate, load.damaged);
  return false;
}

Result<Loaded> load_newest(const RunContext& context, storage::Store& store, Result<Search>& search,
                           std::span<const HostEntry> entries) {
  Loaded loaded;
  for (;;) {
    const auto offer = TRY(share_offer(context, search));
    loaded.skipped.insert(loaded.skipped.end(), offer.skipped.begin(), offer.skipped.end());
    loaded.has_skipped_complete = loaded.has_skipped_complete || offer.has_skipped_complete;
    if (offer.local) {
      const auto is_loaded = TRY(load_copy(context, search, *offer.local, entries, loaded));
      if (is_loaded) return loaded;
      continue;
    }
    if (offer.manifest_text.empty()) return loaded;
    const auto manifest = TRY(parse_manifest(offer.manifest_text));
    const auto damage = TRY(load_together(context, store, manifest, entries));
    if (!damage.empty()) {
      loaded.skipped.push_back(damage);
      loaded.has_skipped_complete = true;
      continue;
    }
    loaded.id = manifest.id;
    loaded.restored = restored_of(manifest, store.uri_of(folder_key(manifest.id)), /*is_local=*/false, loaded.skipped);
    return loaded;
  }
}

Result<Loaded> load_own(const RunContext& context, Result<Search>& search, std::span<const HostEntry> entries) {
  auto loaded = load_newest(context, context.store, search, entries);
  if (!loaded || loaded->restored) return loaded;
  if (loaded->has_skipped_complete) {
    return fail(ErrorKind::corrupt,
                fmt::format("none of the {} checkpoints in {} is whole: repair one, {}choose another checkpoint.uri. "
                            "The newest: {}",
                            loaded->skipped.size(), context.store.uri_of(""),
                            context.resumes_others ? "set checkpoint.resume: none to begin afresh, or " : "or ",
                            loaded->skipped.front()));
  }
  // A run that restores a candidate reports what was skipped. This run restores nothing, so it is logged here.
  for (const std::string& reason : loaded->skipped) {
    if (context.is_rank0()) logging::warn("no checkpoint is whole: this run does not resume", {{"error", reason}});
  }
  return loaded;
}

Result<std::optional<Restored>> load_origin(const RunContext& context, std::span<const HostEntry> entries) {
  const Origin& origin = *context.origin;
  const std::string place = origin.store.uri_of(origin.id ? folder_key(*origin.id) : "");
  Result<Search> search = fail(ErrorKind::internal, "only rank 0 searches");
  if (context.is_rank0()) search = Search::begin(origin);
  auto loaded = load_newest(context, origin.store, search, entries);
  if (!loaded) return fail(fmt::format("beginning from {}", place), loaded.error());
  if (loaded->restored) return std::move(loaded->restored);
  const bool is_there = !loaded->skipped.empty();
  return fail(is_there ? ErrorKind::corrupt : ErrorKind::not_found,
              fmt::format("beginning from {}: {}", place,
                          is_there ? "no checkpoint there is whole. The newest: " + loaded->skipped.front()
                                   : "there is no complete checkpoint"));
}

// The first rank at each place reads the claim, so that a folder that is not shared, or a node without credentials,
// shows now and not after the first epoch.
Result<void> see_claim(const RunContext& context, const Claim& claim) {
  if (!context.is_first_here) return {};
  const auto seen = ask_patiently(context.patience, context.clock, StartCall::state, [&] {
    return storage::get_text(context.store, claim_key(claim.generation)).and_then(parse_claim);
  });
  if (seen && seen->nonce == claim.nonce) return {};
  // Rank 0 itself put the claim there: where the store has no conditional create, another run may have overwritten it.
  if (seen && context.is_rank0()) return check_newest(context.store, claim);
  if (!seen && !is_damage(seen.error().kind)) return tl::unexpected(seen.error());
  return fail(
      ErrorKind::invalid,
      fmt::format(
          "{} does not hold here what rank 0 wrote there: checkpoint.uri must be one place that all ranks share",
          context.store.uri_of(claim_key(claim.generation))));
}

Result<Claim> claim_together(const RunContext& context, Result<Search>& search) {
  Result<nlohmann::json> mine;
  if (context.is_rank0()) {
    mine = search.and_then([](Search& s) { return s.next_generation(); }).and_then([&](std::int64_t generation) {
      const Claim claim{.generation = generation,
                        .identity = context.identity,
                        .resumed_from = std::nullopt,
                        .time = context.clock.now(),
                        .nonce = context.make_nonce(),
                        .process = context.process,
                        .is_open = true};
      return put_claim(context.store, claim).map([&] { return nlohmann::json(to_text(claim)); });
    });
  }
  return broadcast_from_rank0(context.communicator, mine)
      .and_then([](const nlohmann::json& text) { return parse_claim(text.get<std::string>()); })
      .and_then([&](const Claim& claim) {
        return agree(context.communicator, see_claim(context, claim)).map([&] { return claim; });
      });
}

// The run before may save until the claim stops it, even while this run loads, and may have removed what was loaded.
Result<Loaded> load_later(const RunContext& context, Result<Search>& search, Loaded loaded,
                          std::span<const HostEntry> entries) {
  for (int refreshes = 0; refreshes < refreshes_max; ++refreshes) {
    auto view = TRY(list_copies(context));
    Result<nlohmann::json> mine;
    if (context.is_rank0()) {
      mine = search.and_then([&](Search& s) { return s.refresh(std::move(view.copies)); }).map([](bool is_more) {
        return nlohmann::json(is_more);
      });
    }
    const auto is_more = TRY(broadcast_from_rank0(context.communicator, mine));
    if (!is_more.get<bool>()) break;
    auto later = TRY(load_own(context, search, entries));
    if (!later.restored) break;
    loaded = std::move(later);
  }
  return loaded;
}

Result<Claim> close_together(const RunContext& context, Claim claim, const std::optional<CheckpointId>& resumed_from) {
  claim.resumed_from = resumed_from;
  claim.is_open = false;
  Result<nlohmann::json> mine;
  if (context.is_rank0()) mine = close_claim(context.store, claim).map([] { return nlohmann::json(true); });
  return broadcast_from_rank0(context.communicator, mine).map([&](const nlohmann::json&) { return claim; });
}

Result<Resumption> restore_once(const RunContext& context, std::span<const HostEntry> entries) {
  auto view = TRY(list_copies(context));
  Result<Search> search = fail(ErrorKind::internal, "only rank 0 searches");
  if (context.is_rank0()) {
    search = Search::begin(context, std::move(view.copies));
    if (search) std::ranges::move(search->rejections(), std::back_inserter(view.damaged));
    warn_of_copies(std::move(view.damaged));
  }
  auto own = TRY(load_own(context, search, entries));
  std::optional<Restored> from_origin;
  if (!own.restored && context.origin) from_origin = TRY(load_origin(context, entries));
  const auto open = TRY(claim_together(context, search));
  own = TRY(load_later(context, search, std::move(own), entries));
  const auto claim = TRY(close_together(context, open, own.id));
  Resumption resumption{
      .restored = own.restored ? std::move(own.restored) : std::move(from_origin), .claim = claim, .claims = {}};
  if (context.is_rank0()) {
    resumption.claims = search->inventory().claims;
    resumption.claims.push_back(claim);
  }
  return resumption;
}

// Waits while a run by hand on another machine may be alive. A run that was killed gives no further sign of life, and
// is followed when its last one has run out; a run that gives another one lives.
class SilenceWait {
 public:
  explicit SilenceWait(const RunContext& context) : context_{context} {}

  // True when the claims are to be read again. Waits before it returns true.
  [[nodiscard]] bool wait_for_next(const Error& error) {
    if (*error.retry_after > context_.patience.duration) return false;
    const Time runs_out = context_.clock.now() + *error.retry_after;
    if (!runs_out_) runs_out_ = runs_out;
    if (runs_out > *runs_out_ + sign_interval / 2) return false;
    return context_.patience.wait(std::min<std::chrono::milliseconds>(*error.retry_after, look_interval), error);
  }

 private:
  static constexpr std::chrono::seconds look_interval{10};

  const RunContext& context_;
  std::optional<Time> runs_out_;
};

// True when a start that failed with `error` is to be tried again. Rank 0 decides for all ranks, and waits first.
Result<bool> wait_together(const RunContext& context, StartTries& tries, SilenceWait& silence, const Error& error) {
  const bool is_refused = error.kind == ErrorKind::invalid && error.retry_after;
  if (!is_refused && !may_pass_at_a_start(StartCall::state, error.kind)) return false;
  Result<nlohmann::json> mine;
  if (context.is_rank0()) {
    mine = is_refused ? silence.wait_for_next(error) : tries.wait_for_next(StartCall::state, error);
  }
  return broadcast_from_rank0(context.communicator, mine).map([](const nlohmann::json& again) {
    return again.get<bool>();
  });
}

}  // namespace

Result<Resumption> restore_state(const RunContext& context, std::span<const HostEntry> entries) {
  bool has_found_damage = false;
  StartTries storage_tries{context.patience, context.clock};
  SilenceWait silence{context};
  for (int tries = 0;;) {
    auto resumption = restore_once(context, entries);
    if (resumption) return resumption;
    const auto is_to_wait = TRY(wait_together(context, storage_tries, silence, resumption.error()));
    if (is_to_wait) continue;
    if (++tries >= claim_tries_max) return resumption;
    const ErrorKind kind = resumption.error().kind;
    // Another run may have claimed the generation meanwhile, and may have resumed from elsewhere: choose again. Damage
    // is retried once: an older run, which still saves, may be removing the checkpoint.
    const bool is_worth_another_try =
        kind == ErrorKind::already_exists || (kind == ErrorKind::corrupt && !std::exchange(has_found_damage, true));
    if (!is_worth_another_try) return resumption;
  }
}

}  // namespace trainyard::checkpoint
