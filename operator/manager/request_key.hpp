#pragma once

#include <string>

namespace trainyard::manager {

/// 32 random bytes: manifest::Settings::request_key of a process, made at its start and never stored.
[[nodiscard]] std::string make_request_key();

}  // namespace trainyard::manager
