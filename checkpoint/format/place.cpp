#include "checkpoint/format/place.hpp"

namespace trainyard::checkpoint {

Place parse_place(std::string_view uri) {
  std::string_view bare = uri;
  while (bare.ends_with('/')) bare.remove_suffix(1);
  const std::size_t last = bare.rfind('/');
  const std::size_t before =
      last == std::string_view::npos || last == 0 ? std::string_view::npos : bare.rfind('/', last - 1);
  if (before == std::string_view::npos) return {.prefix_uri = std::string{uri}, .id = std::nullopt};
  const auto id = parse_folder_key(bare.substr(before + 1));
  if (!id) return {.prefix_uri = std::string{uri}, .id = std::nullopt};
  return {.prefix_uri = std::string{bare.substr(0, before)}, .id = id};
}

}  // namespace trainyard::checkpoint
