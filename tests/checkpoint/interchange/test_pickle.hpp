#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/interchange/little_endian.hpp"

/// Parts of pickles, as Python's pickler writes them in protocol 2.
namespace trainyard::checkpoint::pickled {

inline const std::string begin = "\x80\x02";
inline const std::string empty_tuple = ")";

inline std::string text(std::string_view value) {
  return "X" + little_endian(value.size(), 4) + std::string{value};
}
inline std::string number(std::int64_t value) {
  return "J" + little_endian(static_cast<std::uint64_t>(value), 4);
}
inline std::string global(std::string_view module, std::string_view name) {
  return fmt::format("c{}\n{}\n", module, name);
}
inline std::string tuple(const std::string& items) {
  return "(" + items + "t";
}
inline std::string numbers(const std::vector<std::int64_t>& values) {
  std::string items;
  for (const std::int64_t value : values) items += number(value);
  return tuple(items);
}
inline std::string dict(const std::string& items) {
  return "}(" + items + "u";
}
inline std::string ordered_dict(const std::string& items) {
  return global("collections", "OrderedDict") + ")R(" + items + "u";
}

struct View {
  std::string storage_class = "FloatStorage";
  std::string record = "0";
  std::int64_t storage_count = 6;
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape = {2, 3};
  std::vector<std::int64_t> strides = {3, 1};
};

inline std::string storage(const View& view) {
  return tuple(text("storage") + global("torch", view.storage_class) + text(view.record) + text("cuda:3") +
               number(view.storage_count)) +
         "Q";
}
/// `further`: arguments behind the last.
inline std::string tensor(const View& view, const std::string& further = "") {
  return global("torch._utils", "_rebuild_tensor_v2") +
         tuple(storage(view) + number(view.offset) + numbers(view.shape) + numbers(view.strides) + "\x89" +
               global("collections", "OrderedDict") + ")R" + further) +
         "R";
}
inline std::string parameter(const View& view) {
  return global("torch._utils", "_rebuild_parameter") +
         tuple(tensor(view) + "\x88" + global("collections", "OrderedDict") + ")R") + "R";
}

}  // namespace trainyard::checkpoint::pickled
