#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace trainyard {

/// Kinds of errors by what a caller can do about them, not by where they came from. Codes of HTTP, errno and curl are
/// translated at the edge.
enum class ErrorKind {
  invalid,         ///< The input is wrong; the same call fails again. Tell the user.
  not_found,       ///< It does not exist.
  already_exists,  ///< The object to create exists.
  conflict,        ///< Somebody else wrote first: read again, decide again.
  gone,            ///< The version asked for is no longer kept: list afresh.
  unauthorized,    ///< The credentials are missing or wrong.
  forbidden,       ///< The credentials are valid, but do not allow it (RBAC, quota, bucket policy).
  throttled,       ///< The server asks to slow down; `retry_after` is set where it said for how long.
  unavailable,     ///< The other side cannot be reached or is failing; try again with backoff.
  timeout,         ///< A deadline of ours passed.
  corrupt,         ///< The bytes differ from those that were written.
  io,              ///< The operating system refused (such as a full disk).
  cancelled,       ///< We were asked to stop.
  internal,        ///< None of the above.
};

struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string message;  ///< Says what was tried, on what, and what came back.
  std::optional<std::chrono::milliseconds> retry_after;
  bool operator==(const Error&) const = default;
};

template <typename T>
using Result = tl::expected<T, Error>;

/// An unexpected value, for `return fail(...)`.
[[nodiscard]] tl::unexpected<Error> fail(ErrorKind kind, std::string message,
                                         std::optional<std::chrono::milliseconds> retry_after = std::nullopt);

/// `error` with `context` put before its message: "loading x: no such file".
[[nodiscard]] tl::unexpected<Error> fail(std::string_view context, const Error& error);

/// The enumerator's name, for logs and conditions.
[[nodiscard]] std::string_view to_string(ErrorKind kind);

/// True when the same call may succeed later although nobody changes anything.
[[nodiscard]] bool is_transient(ErrorKind kind);

}  // namespace trainyard
