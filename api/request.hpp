#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "api/contract.hpp"

/// Ids of requests for a checkpoint: in POST /checkpoint, in the annotation and on the command line.
namespace trainyard::contract {

/// True when `c` may be part of an id.
[[nodiscard]] constexpr bool is_request_id_character(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

/// True when `id` matches checkpoint_request_id_pattern.
[[nodiscard]] constexpr bool is_request_id(std::string_view id) {
  return !id.empty() && id.size() <= checkpoint_request_id_bytes_max &&
         std::ranges::all_of(id, is_request_id_character);
}

/// State of a request for a checkpoint, in the worker's /status and in the job's status.
enum class RequestState { pending, done, failed };

using RequestStateWord = std::pair<std::string_view, RequestState>;
inline constexpr std::array<RequestStateWord, 3> request_state_words{
    {{"Pending", RequestState::pending}, {"Done", RequestState::done}, {"Failed", RequestState::failed}}};

[[nodiscard]] constexpr std::string_view to_string(RequestState state) {
  return std::ranges::find(request_state_words, state, &RequestStateWord::second)->first;
}
/// The state that `word` names; empty for any other word.
[[nodiscard]] constexpr std::optional<RequestState> request_state_from(std::string_view word) {
  const auto* const found = std::ranges::find(request_state_words, word, &RequestStateWord::first);
  return found == request_state_words.end() ? std::nullopt : std::optional{found->second};
}

}  // namespace trainyard::contract
