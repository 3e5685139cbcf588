#pragma once

#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

namespace trainyard {

/// The value of `result`, which has one: the part of TRY that a macro cannot say.
template <typename T, typename E>
T value_tried(tl::expected<T, E>&& result) {
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

/// A variable keeps its value.
template <typename T, typename E>
void value_tried(const tl::expected<T, E>& /*result*/) {}

}  // namespace trainyard

/// The value of `expression`, a Result<T>; nothing when T is void. When `expression` is an error, the enclosing
/// function returns that error instead; an enclosing lambda states its return type.
///
/// TRY is a statement, or all that a variable is initialised with or assigned:
///   TRY(store.remove(key));
///   const Manifest manifest = TRY(read_manifest(store, id));
/// Within a larger expression g++ would not destroy the temporaries made so far. A statement drops the value: a lock
/// that is to be held needs a variable. TRY(variable) leaves the variable its value.
///
/// Only .cpp files include this header, so that no header defines the name for a user's program.
#define TRY(...) TRAINYARD_TRY_EXPANDED(__COUNTER__, __VA_ARGS__)

// Makes __COUNTER__ a number, since it becomes part of a name: a lambda within `expression` may contain a TRY too,
// whose variable has another name.
#define TRAINYARD_TRY_EXPANDED(number, ...) TRAINYARD_TRY_NUMBERED(number, __VA_ARGS__)
#define TRAINYARD_TRY_NUMBERED(number, ...)                                                                     \
  __extension__({                                                                                               \
    auto&& tried_##number = (__VA_ARGS__);                                                                      \
    if (!tried_##number) return tl::unexpected(std::forward<decltype(tried_##number)>(tried_##number).error()); \
    trainyard::value_tried(std::forward<decltype(tried_##number)>(tried_##number));                             \
  })
