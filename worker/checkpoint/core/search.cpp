#include "worker/checkpoint/core/search.hpp"

#include <fmt/format.h>

#include <algorithm>

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
  Search search{context.store, context.identity, std::move(*inventory)};
  if (auto may = check_may_follow(search.inventory_, context.identity, context.store); !may)
    return tl::unexpected(may.error());
  std::vector<CheckpointId>& left = search.left_;
  left = counting(search.inventory_.complete, search.inventory_.claims);
  std::reverse(left.begin(), left.end());
  if (context.resumes_others) return search;
  std::erase_if(left, [&](const CheckpointId& id) {
    return std::none_of(search.inventory_.claims.begin(), search.inventory_.claims.end(), [&](const Claim& claim) {
      return claim.generation == id.generation && is_our_own(claim.identity, context.identity);
    });
  });
  return search;
}

Result<Search> Search::begin(const Origin& origin) {
  auto inventory = take_inventory(origin.store);
  if (!inventory) return tl::unexpected(inventory.error());
  Search search{origin.store, std::nullopt, std::move(*inventory)};
  search.left_ = origin.id ? std::vector{*origin.id} : counting(search.inventory_.complete, search.inventory_.claims);
  std::reverse(search.left_.begin(), search.left_.end());
  return search;
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
