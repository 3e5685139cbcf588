#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "api/request_state.hpp"
#include "common/result.hpp"

/// A checkpoint that somebody asks for while training runs, in the words of contract.hpp's POST /checkpoint.
namespace trainyard::rank {

/// What the ranks do once it is saved.
enum class Then {
  go_on,  ///< "continue"
  exit,
};

struct CheckpointRequest {
  std::string id;  ///< Given by whoever asks.
  Then then = Then::go_on;
  bool operator==(const CheckpointRequest&) const = default;
};

using contract::RequestState;

/// The longest error text in a rank's JSON; the log has the whole text.
inline constexpr std::size_t error_bytes_max = 512;

/// What has come of a request.
struct CheckpointRecord {
  CheckpointRequest request;
  RequestState state = RequestState::pending;
  std::optional<std::int64_t> step;  ///< Of the state that was saved, once it is done.
  std::string uri;                   ///< Where that is.
  std::string message;               ///< Why it failed.
  bool operator==(const CheckpointRecord&) const = default;
};

/// "continue" or "exit".
[[nodiscard]] std::string_view to_string(Then then);

/// A request's body. ErrorKind::invalid with one sentence for whoever sent it.
[[nodiscard]] Result<CheckpointRequest> parse_checkpoint_request(std::string_view body);

[[nodiscard]] nlohmann::json to_json(const CheckpointRequest& request);
[[nodiscard]] nlohmann::json to_json(const CheckpointRecord& record);
/// What to_json() wrote. Throw nlohmann::json::exception for anything else.
[[nodiscard]] CheckpointRequest checkpoint_request_from(const nlohmann::json& object);
[[nodiscard]] CheckpointRecord checkpoint_record_from(const nlohmann::json& object);

}  // namespace trainyard::rank
