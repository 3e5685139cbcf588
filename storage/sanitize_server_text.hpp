#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace trainyard::storage {

/// `text`, from a server or a program, fit for a sentence of ours: one line of at most 300 bytes without a full stop at
/// its end. `secrets`, digests and signatures in it are replaced by "***".
[[nodiscard]] std::string sanitize_server_text(std::string text, std::initializer_list<std::string_view> secrets);
[[nodiscard]] std::string sanitize_server_text(std::string text, std::span<const std::string> secrets);

}  // namespace trainyard::storage
