#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace trainyard {

/// What a caller can do about an error, not where it came from. HTTP's, errno's and curl's are translated at the edge.
enum class ErrorKind {
  invalid,         ///< The input is wrong; the same call fails again. Tell the user.
  not_found,       ///< The thing asked for is not there.
  already_exists,  ///< A create met an object of that name.
  conflict,        ///< Somebody else wrote first: read again, decide again.
  gone,            ///< The version asked for is no longer kept: list afresh.
  unauthorized,    ///< The credentials are missing or wrong.
  forbidden,       ///< The credentials are good, the action is not allowed (RBAC, quota, bucket policy).
  throttled,       ///< Told to slow down; `retry_after` says how long, where the server did.
  unavailable,     ///< The other side cannot be reached or is failing; try again with backoff.
  timeout,         ///< A deadline of ours passed.
  corrupt,         ///< Bytes came back other than they were written.
  io,              ///< The operating system refused (disk full, permission); the message says what.
  cancelled,       ///< We were asked to stop.
  internal,        ///< None of the above.
};

struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string message;  ///< What was tried, on what, what came back.
  std::optional<std::chrono::milliseconds> retry_after;
  bool operator==(const Error&) const = default;
};

template <typename T>
using Result = tl::expected<T, Error>;

/// An unexpected value for `return fail(...)`.
[[nodiscard]] tl::unexpected<Error> fail(ErrorKind kind, std::string message,
                                         std::optional<std::chrono::milliseconds> retry_after = std::nullopt);

/// `error` with `context` put before its message: "loading x: no such file".
[[nodiscard]] tl::unexpected<Error> fail(std::string_view context, const Error& error);

/// The kind's name as it stands above, for logs and conditions.
[[nodiscard]] std::string_view to_string(ErrorKind kind);

/// Whether the same call may succeed later without anybody changing anything.
[[nodiscard]] bool is_transient(ErrorKind kind);

}  // namespace trainyard
