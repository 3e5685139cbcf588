#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace trainyard::storage {

/// A server's (or a program's) words, fit for a sentence of ours: short, on one line, without a full stop, and none of
/// `secrets` in them, and no signature.
[[nodiscard]] std::string server_words(std::string text, std::initializer_list<std::string_view> secrets);

}  // namespace trainyard::storage
