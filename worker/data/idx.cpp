#include "worker/data/idx.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/try.hpp"

namespace trainyard::data {
namespace {

constexpr unsigned char type_unsigned_byte = 0x08;
constexpr std::int64_t elements_max = std::int64_t{1}
                                      << 36;  // Bounds what a broken header can make us allocate: 64 GiB.

constexpr std::uintmax_t deflate_ratio_max = 1032;  // Source: zlib's technical details (zlib.net/zlib_tech.html).

struct CloseFile {
  void operator()(gzFile file) const { gzclose(file); }
};
using File = std::unique_ptr<gzFile_s, CloseFile>;

/// How many bytes were read into `into`: fewer than its size only at the end of the file. zlib reads plain files as
/// they are.
Result<std::size_t> read_some(gzFile file, std::span<unsigned char> into, const std::filesystem::path& path) {
  constexpr std::size_t piece_bytes = std::size_t{1} << 30;  // gzread counts in `unsigned` and returns an `int`.
  std::size_t done = 0;
  while (done < into.size()) {
    const auto wanted = static_cast<unsigned>(std::min(into.size() - done, piece_bytes));
    const int got = gzread(file, into.data() + done, wanted);
    if (got < 0) {
      int code = 0;
      return fail(ErrorKind::corrupt, fmt::format("reading {}: {}", path.string(), gzerror(file, &code)));
    }
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

std::int64_t big_endian(std::span<const unsigned char, 4> bytes) {
  return (std::int64_t{bytes[0]} << 24) | (std::int64_t{bytes[1]} << 16) | (std::int64_t{bytes[2]} << 8) |
         std::int64_t{bytes[3]};
}

Result<std::vector<std::int64_t>> read_shape(gzFile file, std::int64_t dimensions, const std::filesystem::path& path) {
  std::array<unsigned char, 4> magic{};
  const auto got = TRY(read_some(file, magic, path));
  if (got < magic.size() || magic[0] != 0 || magic[1] != 0) {
    return fail(
        ErrorKind::invalid,
        fmt::format("{} is not an IDX file: it begins with the bytes {:02x} {:02x} {:02x} {:02x}, not with 00 00 08",
                    path.string(), magic[0], magic[1], magic[2], magic[3]));
  }
  if (magic[2] != type_unsigned_byte) {
    return fail(ErrorKind::invalid,
                fmt::format("{} is an IDX file of type 0x{:02x}; only unsigned bytes (0x08) are read", path.string(),
                            magic[2]));
  }
  if (magic[3] != dimensions) {
    return fail(ErrorKind::invalid, fmt::format("{} is an IDX file of {} dimensions; {} were expected", path.string(),
                                                magic[3], dimensions));
  }
  std::vector<std::int64_t> shape;
  std::int64_t elements = 1;
  for (std::int64_t dimension = 0; dimension < dimensions; ++dimension) {
    std::array<unsigned char, 4> bytes{};
    const auto read = TRY(read_some(file, bytes, path));
    if (read < bytes.size()) return fail(ErrorKind::corrupt, fmt::format("{} ends inside its header", path.string()));
    shape.push_back(big_endian(bytes));
    if (shape.back() == 0)
      return fail(ErrorKind::invalid, fmt::format("{} holds nothing: its shape has a zero", path.string()));
    if (elements > elements_max / shape.back()) {
      return fail(ErrorKind::corrupt,
                  fmt::format("{} claims more than {} elements in its header", path.string(), elements_max));
    }
    elements *= shape.back();
  }
  return shape;
}

std::optional<std::filesystem::path> find_file(const std::filesystem::path& folder, const std::string& name) {
  for (const std::string& candidate : {name, name + ".gz"}) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(folder / candidate, ignored)) return folder / candidate;
  }
  return std::nullopt;
}

}  // namespace

Result<torch::Tensor> read_idx(const std::filesystem::path& file, std::int64_t dimensions) {
  const File opened{gzopen(file.c_str(), "rb")};
  if (!opened) {
    return fail(errno == ENOENT ? ErrorKind::not_found : ErrorKind::forbidden,
                fmt::format("{} cannot be opened: {}", file.string(), std::strerror(errno)));
  }
  gzbuffer(opened.get(), 1U << 20);
  const auto shape = TRY(read_shape(opened.get(), dimensions, file));

  std::error_code ignored;
  const std::uintmax_t file_bytes = std::filesystem::file_size(file, ignored);
  const std::int64_t claimed_bytes = c10::multiply_integers(shape);
  if (!ignored && static_cast<std::uintmax_t>(claimed_bytes) > file_bytes * deflate_ratio_max) {
    return fail(ErrorKind::corrupt, fmt::format("{} has {} bytes; its header claims {}: it was cut off", file.string(),
                                                file_bytes, claimed_bytes));
  }
  torch::Tensor values = torch::empty(shape, torch::kUInt8);
  const auto bytes = static_cast<std::size_t>(values.numel());
  const auto got = TRY(read_some(opened.get(), {values.data_ptr<std::uint8_t>(), bytes}, file));
  if (got < bytes) {
    return fail(ErrorKind::corrupt, fmt::format("{} holds {} bytes of data; its header says {}: it was cut off",
                                                file.string(), got, bytes));
  }
  std::array<unsigned char, 1> beyond{};
  const auto more = TRY(read_some(opened.get(), beyond, file));
  if (more != 0)
    return fail(ErrorKind::corrupt,
                fmt::format("{} holds more than the {} bytes of data that its header says", file.string(), bytes));
  return values;
}

Result<LabeledImages> read_labeled_images(const std::filesystem::path& folder, std::string_view part) {
  const std::string images_name = fmt::format("{}-images-idx3-ubyte", part);
  const std::string labels_name = fmt::format("{}-labels-idx1-ubyte", part);
  const auto images_file = find_file(folder, images_name);
  const auto labels_file = find_file(folder, labels_name);
  if (!images_file || !labels_file) {
    std::error_code ignored;
    const std::string_view what =
        std::filesystem::is_directory(folder, ignored) ? "does not hold" : "is not a folder that can be read;";
    const std::string missing = !images_file && !labels_file ? fmt::format("{} and {}", images_name, labels_name)
                                : !images_file               ? images_name
                                                             : labels_name;
    return fail(
        ErrorKind::not_found,
        fmt::format("the data path {} {} {}{} (each may end in .gz); set training.data.path to the folder that does",
                    folder.string(), what, what.ends_with(';') ? "expected there: " : "", missing));
  }
  auto images = TRY(read_idx(*images_file, 3));
  auto labels = TRY(read_idx(*labels_file, 1));
  if (images.size(0) != labels.size(0)) {
    return fail(ErrorKind::invalid, fmt::format("{} holds {} images but {} holds {} labels", images_file->string(),
                                                images.size(0), labels_file->string(), labels.size(0)));
  }
  return LabeledImages{.images = images.unsqueeze(1), .labels = labels.to(torch::kInt64)};
}

}  // namespace trainyard::data
