#include "checkpoint/interchange/fetch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "checkpoint/interchange/new_file.hpp"
#include "checkpoint/interchange/verify.hpp"
#include "common/try.hpp"
#include "storage/crc32c.hpp"

namespace trainyard::checkpoint {
namespace {

Result<void> copy_file(storage::Store& store, const std::string& key, const Receipt& receipt, NewFolder& folder) {
  auto file = TRY(folder.create(key));
  std::uint32_t crc = 0;
  std::vector<std::byte> piece;
  for (std::uint64_t offset = 0; offset < receipt.bytes; offset += piece.size()) {
    piece.resize(std::min(piece_bytes, receipt.bytes - offset));
    TRY(store.get_range(key, offset, piece).and_then([&] { return file.write(piece); }));
    crc = storage::crc32c(piece, crc);
  }
  if (crc != receipt.crc32c) {
    return fail(ErrorKind::corrupt, fmt::format("{} is damaged: its checksum does not match. `trainyard checkpoints "
                                                "verify` names what in it is, and another step may be whole",
                                                store.uri_of(key)));
  }
  return file.commit();
}

// The generation's claim. A lost claim is made up from the manifest.
std::string claim_text(const Inventory& inventory, const Manifest& manifest) {
  const auto claim = std::find_if(inventory.claims.begin(), inventory.claims.end(),
                                  [&](const Claim& each) { return each.generation == manifest.id.generation; });
  if (claim != inventory.claims.end()) return to_text(*claim);
  return to_text(Claim{.generation = manifest.id.generation,
                       .identity = manifest.identity,
                       .resumed_from = std::nullopt,
                       .time = manifest.time,
                       .nonce = manifest.nonce});
}

}  // namespace

Result<std::uint64_t> fetch(storage::Store& store, const Inventory& inventory, const Manifest& manifest,
                            const std::string& folder) {
  NewFolder target{folder};
  TRY(target.check_free());
  for (const Receipt& receipt : manifest.receipts) {
    const std::string key = data_key(manifest, receipt.rank);
    TRY(copy_file(store, key, receipt, target));
  }
  return target.write(claim_key(manifest.id.generation), claim_text(inventory, manifest))
      .and_then([&] { return target.write(end_key(manifest.id.generation), ""); })
      .and_then([&] { return target.write(manifest_key(manifest.id), to_text(manifest)); })
      .and_then([&] { return target.commit(); })
      .map([&] { return data_bytes(manifest); });
}

}  // namespace trainyard::checkpoint
