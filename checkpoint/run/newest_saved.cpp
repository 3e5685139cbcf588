#include "checkpoint/run/newest_saved.hpp"

#include <array>
#include <string>
#include <string_view>

#include "checkpoint/format/sealed_json.hpp"
#include "checkpoint/run/inventory.hpp"
#include "common/check.hpp"
#include "common/logging.hpp"
#include "common/try.hpp"

namespace trainyard::checkpoint {
namespace {

Result<std::int64_t> parse_step(std::string_view text, const Claim& claim) {
  return unseal(text).and_then([&](const nlohmann::json& object) -> Result<std::int64_t> {
    const auto nonce = TRY(read_fields("a record", [&] { return object.at("nonce").get<std::string>(); }));
    if (nonce != claim.nonce) return fail(ErrorKind::corrupt, "another run of this generation wrote it");
    const auto step = object.find("step");
    const bool is_step = step != object.end() && step->is_number_integer() && step->get<std::int64_t>() >= 0;
    if (!is_step) return fail(ErrorKind::corrupt, "it names no step");
    return step->get<std::int64_t>();
  });
}

}  // namespace

Result<void> put_newest_saved(storage::Store& store, const Claim& ours, std::int64_t step) {
  std::string text = seal({{"nonce", ours.nonce}, {"step", step}});
  check(text.size() <= newest_saved_bytes, "a record fits into newest_saved_bytes");
  text.resize(newest_saved_bytes, ' ');
  return storage::put_text(store, saved_key(ours.generation), text);
}

Result<std::optional<CheckpointId>> read_newest_saved(storage::Store& store, const Claim& claim) {
  const std::string key = saved_key(claim.generation);
  std::array<std::byte, newest_saved_bytes> bytes{};
  const auto read = store.get_range(key, 0, bytes);
  if (!read && says_absent(read.error().kind)) return std::nullopt;
  if (!read && read.error().kind != ErrorKind::corrupt) return tl::unexpected(read.error());
  const auto step = read.and_then([&] {
    return parse_step({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, claim);
  });
  if (step) return CheckpointId{.step = *step, .generation = claim.generation};
  logging::warn("the record of a run's newest checkpoint is not used: only lists lead to that checkpoint",
                {{"uri", store.uri_of(key)}, {"error", step.error().message}});
  return std::nullopt;
}

}  // namespace trainyard::checkpoint
