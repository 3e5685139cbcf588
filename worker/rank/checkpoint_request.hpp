#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "api/request.hpp"
#include "common/result.hpp"

/// A request for a checkpoint while training runs: contract.hpp's POST /checkpoint.
namespace trainyard::rank {

/// The ranks' next action once the checkpoint is saved.
enum class Then {
  go_on,  ///< "continue"
  exit,
};

struct CheckpointRequest {
  std::string id;  ///< The client chooses it.
  Then then = Then::go_on;
  bool operator==(const CheckpointRequest&) const = default;
};

using contract::RequestState;

/// Most bytes of an error's text in /status and other documents. The log has the whole text.
inline constexpr std::size_t error_bytes_max = 512;

/// A request and its outcome: the request record.
struct RequestRecord {
  CheckpointRequest request;
  RequestState state = RequestState::pending;
  std::optional<std::int64_t> step;  ///< Step of the saved state, once the request is done.
  std::string uri;                   ///< URI of the saved state.
  std::string message;               ///< Why the request failed.
  bool operator==(const RequestRecord&) const = default;
};

/// "continue" or "exit".
[[nodiscard]] std::string_view to_string(Then then);

/// Parses the body of a request. ErrorKind::invalid with one sentence for the client.
[[nodiscard]] Result<CheckpointRequest> parse_checkpoint_request(std::string_view body);

[[nodiscard]] nlohmann::json to_json(const CheckpointRequest& request);
[[nodiscard]] nlohmann::json to_json(const RequestRecord& record);
/// Read what to_json() wrote. Both throw nlohmann::json::exception for anything else.
[[nodiscard]] CheckpointRequest checkpoint_request_from(const nlohmann::json& object);
[[nodiscard]] RequestRecord request_record_from(const nlohmann::json& object);

}  // namespace trainyard::rank
