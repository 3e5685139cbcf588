#include "worker/checkpoint/core/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "worker/checkpoint/core/file_check.hpp"
#include "worker/checkpoint/core/manifest.hpp"
#include "worker/checkpoint/core/sealed_json.hpp"
#include "worker/checkpoint/core/selection.hpp"
#include "worker/checkpoint/core/succession.hpp"

namespace trainyard::checkpoint {
namespace {

bool is_our_own(const Identity& other, const Identity& ours) {
  return is_same_life(other, ours) && other.fingerprint == ours.fingerprint;
}

Result<void> check_may_resume(const storage::Store& store, const Identity& resumer, const Manifest& manifest) {
  if (is_same_life(manifest.identity, resumer) || manifest.identity.fingerprint == resumer.fingerprint) return {};
  return fail(
      ErrorKind::invalid,
      fmt::format(
          "{} was saved by job {} with another model or other data: set checkpoint.resume: none to begin afresh "
          "there, or choose another checkpoint.uri",
          store.uri_of(folder_key(manifest.id)), manifest.identity.job));
}

}  // namespace

bool is_damage(ErrorKind kind) {
  return kind == ErrorKind::corrupt || kind == ErrorKind::not_found;
}

Result<Search> Search::begin(const RunContext& context) {
  auto inventory = take_inventory(context.store);
  if (!inventory) return tl::unexpected(inventory.error());
  if (auto added = add_unlisted_claims(context.store, *inventory); !added) return tl::unexpected(added.error());
  Search search{context.store, context.identity, context.resumes_others, std::move(*inventory)};
  if (auto may = check_may_follow(search.inventory_, context.identity, context.store); !may)
    return tl::unexpected(may.error());
  search.line_up();
  return search;
}

Result<Search> Search::begin(const Origin& origin) {
  auto inventory = take_inventory(origin.store);
  if (!inventory) return tl::unexpected(inventory.error());
  Search search{origin.store, std::nullopt, /*resumes_others=*/true, std::move(*inventory)};
  search.line_up();
  if (origin.id) search.left_ = {*origin.id};
  return search;
}

void Search::line_up() {
  left_ = counting(inventory_.complete, inventory_.claims);
  std::reverse(left_.begin(), left_.end());
  if (resumes_others_) return;
  std::erase_if(left_, [&](const CheckpointId& id) {
    return std::none_of(inventory_.claims.begin(), inventory_.claims.end(), [&](const Claim& claim) {
      return claim.generation == id.generation && is_our_own(claim.identity, *resumer_);
    });
  });
}

Result<bool> Search::look_again() {
  auto listed = list_checkpoints(*store_);
  if (!listed) return tl::unexpected(listed.error());
  const std::vector<CheckpointId> before = std::exchange(inventory_.complete, std::move(listed->complete));
  inventory_.present = std::move(listed->present);
  inventory_.sizes = std::move(listed->sizes);
  line_up();
  return std::any_of(left_.begin(), left_.end(), [&](const CheckpointId& id) {
    return std::find(before.begin(), before.end(), id) == before.end();
  });
}

Result<Search::Offer> Search::next() {
  Offer offer;
  while (!left_.empty()) {
    const CheckpointId id = left_.back();
    left_.pop_back();
    const auto text = storage::get_text(*store_, manifest_key(id));
    const auto manifest = text.and_then(parse_manifest);
    const auto whole = manifest.and_then([&](const Manifest& m) { return check_files(inventory_, m, id); });
    if (whole) {
      const auto may = resumer_ ? check_may_resume(*store_, *resumer_, *manifest) : Result<void>{};
      if (!may) return tl::unexpected(may.error());
      offer.manifest_text = *text;
      return offer;
    }
    const std::string uri = store_->uri_of(folder_key(id));
    if (!is_damage(whole.error().kind)) return fail(uri, whole.error());
    offer.skipped.push_back(fmt::format("{}: {}", uri, whole.error().message));
    offer.has_lost = offer.has_lost || !text || !is_torn(*text);
  }
  return offer;
}

}  // namespace trainyard::checkpoint
