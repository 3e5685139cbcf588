#pragma once

#include <string>

namespace trainyard::manager {

/// 32 random bytes for manifest::Settings::request_key. A process makes them at its start and never stores them.
[[nodiscard]] std::string make_request_key();

}  // namespace trainyard::manager
