#include "worker/rank/truncate.hpp"

namespace trainyard::rank {

std::string truncate(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string{text};
  std::size_t kept = bytes_max - 3;
  const auto continues_a_character = [&](std::size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U;
  };
  while (kept > 0 && continues_a_character(kept)) --kept;
  return std::string{text.substr(0, kept)} + "...";
}

}  // namespace trainyard::rank
