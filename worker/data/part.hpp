#pragma once

namespace trainyard::data {

enum class Part { train, validation };

}  // namespace trainyard::data
