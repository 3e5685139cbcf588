#include "checkpoint/run/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace trainyard::checkpoint {
namespace {

std::string outcome_text(const Result<nlohmann::json>& outcome) {
  nlohmann::json object;
  if (outcome) {
    object["value"] = *outcome;
  } else {
    object["kind"] = static_cast<int>(outcome.error().kind);
    object["message"] = outcome.error().message;
    if (outcome.error().retry_after) object["retryAfterMilliseconds"] = outcome.error().retry_after->count();
  }
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<nlohmann::json> parse_outcome(const std::string& text) {
  nlohmann::json object = nlohmann::json::parse(text, nullptr, false);
  if (!object.is_object())
    return fail(ErrorKind::internal, "a rank sent a message that is neither a value nor an error");
  if (object.contains("value")) return std::move(object["value"]);
  std::optional<std::chrono::milliseconds> retry_after;
  if (const auto given = object.find("retryAfterMilliseconds"); given != object.end())
    retry_after = std::chrono::milliseconds{given->get<std::int64_t>()};
  return fail(static_cast<ErrorKind>(object.value("kind", static_cast<int>(ErrorKind::internal))),
              object.value("message", ""), retry_after);
}

// A kind of its own, unlike any of the storage's: after this error the ranks can agree on nothing.
tl::unexpected<Error> ranks_lost(const Error& error) {
  return fail(ErrorKind::cancelled, error.message);
}

// The ranks report the error with the lowest number.
int precedence(ErrorKind kind) {
  if (is_access_denied(kind)) return 1;
  return is_transient(kind) ? 2 : 0;
}

}  // namespace

bool is_access_denied(ErrorKind kind) {
  return kind == ErrorKind::unauthorized || kind == ErrorKind::forbidden;
}

Error agreed_error(std::span<const RankError> errors, std::int64_t world_size) {
  const RankError& first =
      *std::ranges::min_element(errors, {}, [](const RankError& one) { return precedence(one.error.kind); });
  Error agreed = fail(fmt::format("rank {}", first.rank), first.error).value();
  const auto refused =
      std::ranges::count_if(errors, [](const RankError& one) { return is_access_denied(one.error.kind); });
  if (!is_access_denied(agreed.kind) || refused == world_size) return agreed;
  agreed.kind = ErrorKind::unavailable;
  agreed.message += fmt::format(" ({} of {} ranks were denied access, the others were not: check those ranks' nodes)",
                                refused, world_size);
  return agreed;
}

Result<std::vector<nlohmann::json>> gather_all(Communicator& communicator, const Result<nlohmann::json>& mine) {
  const auto texts = communicator.all_gather(outcome_text(mine));
  if (!texts) return ranks_lost(texts.error());
  std::vector<nlohmann::json> values;
  std::vector<RankError> errors;
  for (std::size_t rank = 0; rank < texts->size(); ++rank) {
    auto outcome = parse_outcome((*texts)[rank]);
    if (outcome) {
      values.push_back(std::move(*outcome));
    } else {
      errors.push_back({.rank = static_cast<std::int64_t>(rank), .error = std::move(outcome.error())});
    }
  }
  if (!errors.empty()) return tl::unexpected(agreed_error(errors, communicator.world_size()));
  return values;
}

Result<void> agree(Communicator& communicator, const Result<void>& mine) {
  const Result<nlohmann::json> outcome = mine.map([] { return nlohmann::json(true); });
  return gather_all(communicator, outcome).map([](const auto&) {});
}

Result<nlohmann::json> broadcast_from(Communicator& communicator, std::int64_t root,
                                      const Result<nlohmann::json>& mine) {
  const auto text = communicator.broadcast(communicator.rank() == root ? outcome_text(mine) : std::string{}, root);
  if (!text) return ranks_lost(text.error());
  return parse_outcome(*text);
}

Result<nlohmann::json> broadcast_from_rank0(Communicator& communicator, const Result<nlohmann::json>& mine) {
  return broadcast_from(communicator, 0, mine);
}

}  // namespace trainyard::checkpoint
