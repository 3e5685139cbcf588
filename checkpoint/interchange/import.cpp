#include "checkpoint/interchange/import.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "checkpoint/format/claim.hpp"
#include "checkpoint/format/data_file.hpp"
#include "checkpoint/format/manifest.hpp"
#include "checkpoint/interchange/entry_names.hpp"
#include "checkpoint/run/fence.hpp"
#include "checkpoint/run/inventory.hpp"
#include "checkpoint/run/newest_saved.hpp"
#include "common/try.hpp"

namespace trainyard::checkpoint {
namespace {

// One identity for all imports, so that an import may claim after one that failed. No job can have this name.
Identity importer() {
  return {.job = "trainyard checkpoints import", .job_uid = "", .attempt = 1, .fingerprint = "import"};
}

struct ImportPlan {
  std::vector<HostEntry> entries;
  std::vector<std::string> left_out;
};

Result<ImportPlan> plan_import(std::span<const ForeignTensor> tensors) {
  std::vector<std::string> names;
  for (const ForeignTensor& tensor : tensors) names.push_back(tensor.name);
  const auto entries = entry_names(names);
  ImportPlan plan;
  std::set<std::string> taken;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const ForeignTensor& tensor = tensors[i];
    if (!entries[i]) {
      plan.left_out.push_back(tensor.name);
      continue;
    }
    if (!taken.insert(*entries[i]).second)
      return fail(ErrorKind::invalid, fmt::format("two tensors would be named {}", *entries[i]));
    plan.entries.push_back({.info = {.name = *entries[i],
                                     .placement = Placement::replicated,
                                     .dtype = std::string{tensor.dtype.name},
                                     .shape = tensor.shape,
                                     .bytes = tensor.bytes.size()},
                            .bytes = tensor.bytes});
  }
  return plan;
}

Result<Claim> claim_prefix(storage::Store& store, Time now) {
  auto inventory = TRY(take_inventory(store));
  TRY(add_unlisted_claims(store, inventory));
  if (!inventory.complete.empty()) {
    return fail(
        ErrorKind::already_exists,
        fmt::format("there are checkpoints under {} already: name a folder or prefix of its own", store.uri_of("")));
  }
  TRY(read_newest_liveness(store, inventory));
  TRY(check_may_claim(inventory, importer(), store, now));
  Claim claim{.generation = inventory.generation_max + 1,
              .identity = importer(),
              .resumed_from = std::nullopt,
              .time = now,
              .nonce = make_nonce()};
  return put_claim(store, claim).map([&] { return std::move(claim); });
}

}  // namespace

Result<Imported> import_tensors(storage::Store& store, std::span<const ForeignTensor> tensors,
                                const std::string& source, Time now) {
  auto plan = TRY(plan_import(tensors));
  const auto claim = TRY(claim_prefix(store, now));
  Manifest manifest{.id = {.step = 0, .generation = claim.generation},
                    .identity = claim.identity,
                    .time = now,
                    .nonce = claim.nonce + "-1",
                    .data_nonce = claim.nonce + "-1",
                    .values = {{"step", 0}, {"importedFrom", source}},
                    .entries = {},
                    .receipts = {}};
  for (const HostEntry& entry : plan.entries) manifest.entries.push_back(entry.info);
  auto receipt = TRY(write_share(store, manifest, 0, 1, plan.entries));
  manifest.receipts.push_back(std::move(receipt));
  return check_newest(store, claim)
      .and_then([&] { return put_manifest(store, manifest, claim); })
      .and_then([&] { return put_newest_saved(store, claim, manifest.id.step); })
      // A run that claimed meanwhile may not have seen the manifest, and so supersedes it.
      .and_then([&] { return check_newest(store, claim); })
      .and_then([&] { return put_end(store, claim); })
      .map([&] {
        return Imported{.id = manifest.id,
                        .tensors = static_cast<std::int64_t>(manifest.entries.size()),
                        .bytes = data_bytes(manifest),
                        .left_out = std::move(plan.left_out)};
      });
}

}  // namespace trainyard::checkpoint
