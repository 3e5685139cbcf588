#include "checkpoint/interchange/zip_reader.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "common/try.hpp"

namespace trainyard::checkpoint {
namespace {

constexpr std::uint64_t end_record_bytes = 22;
constexpr std::uint64_t comment_bytes_max = 0xffff;
constexpr std::uint64_t zip64_locator_bytes = 20;
constexpr std::uint64_t zip64_record_bytes = 56;
constexpr std::uint64_t directory_entry_bytes = 46;
constexpr std::uint64_t local_entry_bytes = 30;
constexpr std::uint64_t ones_16 = 0xffff;
constexpr std::uint64_t ones_32 = 0xffffffff;
constexpr std::uint64_t method_stored = 0;
constexpr std::uint64_t method_deflate = 8;

tl::unexpected<Error> torn_archive(std::string_view why) {
  return fail(ErrorKind::corrupt, fmt::format("its zip archive is damaged: {}", why));
}

// Reads little-endian fields one after the other. Fields beyond the end read as zeros and set is_over().
class Fields {
 public:
  explicit Fields(std::span<const std::byte> bytes) : left_{bytes} {}

  std::uint64_t next(std::size_t bytes) {
    std::uint64_t value = 0;
    const auto taken = skip(bytes);
    for (std::size_t i = taken.size(); i-- > 0;) value = value << 8U | std::to_integer<std::uint64_t>(taken[i]);
    return value;
  }
  std::span<const std::byte> skip(std::size_t bytes) {
    is_over_ = is_over_ || bytes > left_.size();
    const auto taken = left_.first(is_over_ ? 0 : bytes);
    left_ = left_.subspan(taken.size());
    return taken;
  }
  [[nodiscard]] bool is_over() const { return is_over_; }
  [[nodiscard]] bool is_at_end() const { return left_.empty(); }

 private:
  std::span<const std::byte> left_;
  bool is_over_ = false;
};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The place of the archive's directory.
struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

bool is_within(std::uint64_t offset, std::uint64_t bytes, std::uint64_t end) {
  return offset <= end && bytes <= end - offset;
}

// The end record is last in the archive, except for a comment whose length the record holds.
std::optional<std::uint64_t> find_end_record(std::span<const std::byte> archive) {
  if (archive.size() < end_record_bytes) return std::nullopt;
  const std::uint64_t last = archive.size() - end_record_bytes;
  for (std::uint64_t comment = 0; comment <= std::min(last, comment_bytes_max); ++comment) {
    Fields fields{archive.subspan(last - comment)};
    if (fields.next(4) != 0x06054b50) continue;
    fields.skip(16);
    if (fields.next(2) == comment) return last - comment;
  }
  return std::nullopt;
}

// Reads the end record and, if a number does not fit into that, the zip64 record before it.
Result<Directory> find_directory(std::span<const std::byte> archive) {
  const auto end = find_end_record(archive);
  if (!end) {
    const bool is_zip = archive.size() >= 4 && Fields{archive}.next(4) == 0x04034b50;
    if (is_zip) return torn_archive("its end is missing");
    return fail(
        ErrorKind::invalid,
        "it is no zip archive, as torch.save has written since torch 1.6: in Python, torch.save(torch.load(FILE), "
        "FILE) makes one of an older file");
  }
  Fields fields{archive.subspan(*end + 4)};
  const std::uint64_t disk = fields.next(2);
  const std::uint64_t directory_disk = fields.next(2);
  const std::uint64_t count_here = fields.next(2);
  Directory directory{.count = fields.next(2)};
  directory.bytes = fields.next(4);
  directory.offset = fields.next(4);
  std::uint64_t behind = *end;  // The directory must end before it.
  const bool is_zip64 = directory.count == ones_16 || directory.bytes == ones_32 || directory.offset == ones_32;
  if (is_zip64) {
    if (*end < zip64_locator_bytes) return torn_archive("its zip64 record is missing");
    Fields locator{archive.subspan(*end - zip64_locator_bytes)};
    const bool is_locator = locator.next(4) == 0x07064b50;
    locator.skip(4);
    behind = locator.next(8);
    if (!is_locator || !is_within(behind, zip64_record_bytes, *end - zip64_locator_bytes))
      return torn_archive("its zip64 record is missing");
    Fields record{archive.subspan(behind)};
    if (record.next(4) != 0x06064b50) return torn_archive("its zip64 record is missing");
    record.skip(8 + 2 + 2 + 4 + 4 + 8);
    directory.count = record.next(8);
    directory.bytes = record.next(8);
    directory.offset = record.next(8);
  } else if (disk != 0 || directory_disk != 0 || count_here != directory.count) {
    return fail(ErrorKind::invalid, "its zip archive is one of several parts");
  }
  if (!is_within(directory.offset, directory.bytes, behind) ||
      directory.count > directory.bytes / directory_entry_bytes)
    return torn_archive("its directory reaches beyond its end");
  return directory;
}

struct Listed64 {
  std::string name;
  ZipEntry entry;
  std::uint64_t header_offset = 0;
};

// Numbers that do not fit into the directory are in the extra field of kind 1, in this order.
bool read_zip64_extra(std::span<const std::byte> extra, Listed64& listed) {
  const std::array<std::uint64_t*, 3> numbers = {&listed.entry.bytes, &listed.entry.stored_bytes,
                                                 &listed.header_offset};
  const bool is_needed = std::any_of(numbers.begin(), numbers.end(), [](const auto* n) { return *n == ones_32; });
  Fields fields{extra};
  while (is_needed && !fields.is_at_end() && !fields.is_over()) {
    const std::uint64_t kind = fields.next(2);
    Fields field{fields.skip(fields.next(2))};
    if (kind != 1) continue;
    for (std::uint64_t* number : numbers) {
      if (*number == ones_32) *number = field.next(8);
    }
    return !field.is_over();
  }
  return !is_needed;
}

Result<Listed64> read_directory_entry(Fields& fields) {
  if (fields.next(4) != 0x02014b50) return torn_archive("its directory is malformed");
  fields.skip(4);
  const std::uint64_t flags = fields.next(2);
  const std::uint64_t method = fields.next(2);
  fields.skip(4);
  Listed64 listed;
  listed.entry.crc32 = static_cast<std::uint32_t>(fields.next(4));
  listed.entry.stored_bytes = fields.next(4);
  listed.entry.bytes = fields.next(4);
  const std::uint64_t name_bytes = fields.next(2);
  const std::uint64_t extra_bytes = fields.next(2);
  const std::uint64_t comment_bytes = fields.next(2);
  fields.skip(2 + 2 + 4);
  listed.header_offset = fields.next(4);
  listed.name = text_of(fields.skip(name_bytes));
  const auto extra = fields.skip(extra_bytes);
  fields.skip(comment_bytes);
  if (fields.is_over() || !read_zip64_extra(extra, listed)) return torn_archive("its directory is cut off");
  constexpr std::uint64_t encrypted = 1;
  if ((flags & encrypted) != 0) return fail(ErrorKind::invalid, fmt::format("{} in it is encrypted", listed.name));
  if (method != method_stored && method != method_deflate)
    return fail(ErrorKind::invalid, fmt::format("{} in it is packed by a method that is not known here", listed.name));
  listed.entry.is_packed = method == method_deflate;
  if (!listed.entry.is_packed && listed.entry.bytes != listed.entry.stored_bytes)
    return torn_archive(fmt::format("{} has two sizes", listed.name));
  return listed;
}

// Sets the offset of the entry's bytes, which follow the header in front of them. `end` is where the directory begins.
Result<void> find_bytes(std::span<const std::byte> archive, Listed64& listed, std::uint64_t end) {
  const auto contradicts = [&] { return torn_archive(fmt::format("{} is not where its directory says", listed.name)); };
  if (!is_within(listed.header_offset, local_entry_bytes, end)) return contradicts();
  Fields fields{archive.first(end).subspan(listed.header_offset)};
  const bool is_header = fields.next(4) == 0x04034b50;
  fields.skip(4);
  const std::uint64_t method = fields.next(2);
  fields.skip(2 + 2 + 4 + 4 + 4);
  const std::uint64_t name_bytes = fields.next(2);
  const std::uint64_t extra_bytes = fields.next(2);
  const std::string name = text_of(fields.skip(name_bytes));
  fields.skip(extra_bytes);
  listed.entry.offset = listed.header_offset + local_entry_bytes + name_bytes + extra_bytes;
  const bool is_same = name == listed.name && method == (listed.entry.is_packed ? method_deflate : method_stored);
  if (!is_header || fields.is_over() || !is_same || !is_within(listed.entry.offset, listed.entry.stored_bytes, end))
    return contradicts();
  return {};
}

Result<void> check_apart(std::vector<Listed64> entries) {
  std::sort(entries.begin(), entries.end(),
            [](const Listed64& a, const Listed64& b) { return a.header_offset < b.header_offset; });
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const Listed64& before = entries[i - 1];
    if (before.entry.offset + before.entry.stored_bytes > entries[i].header_offset)
      return torn_archive(fmt::format("{} and {} overlap", before.name, entries[i].name));
  }
  return {};
}

std::uint32_t checksum_of(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

// Unpacks `packed` into `into`. True when the unpacked bytes fill `into` exactly.
bool unpack(std::span<const std::byte> packed, std::span<std::byte> into) {
  z_stream stream{};
  if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) return false;
  int status = Z_OK;
  // zlib's sizes have 32 bits. One byte of room after the end shows that an entry is longer than its size.
  constexpr std::size_t piece_bytes_max = std::size_t{1} << 30U;
  std::byte beyond{};
  std::size_t written = 0;
  while (status == Z_OK) {
    const auto in = packed.first(std::min(packed.size(), piece_bytes_max));
    const auto out = written < into.size() ? into.subspan(written, std::min(into.size() - written, piece_bytes_max))
                                           : std::span{&beyond, 1};
    stream.next_in = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(in.data()));
    stream.avail_in = static_cast<unsigned>(in.size());
    stream.next_out = reinterpret_cast<unsigned char*>(out.data());
    stream.avail_out = static_cast<unsigned>(out.size());
    status = ::inflate(&stream, Z_NO_FLUSH);
    packed = packed.subspan(in.size() - stream.avail_in);
    written += out.size() - stream.avail_out;
    if (written > into.size()) break;
  }
  ::inflateEnd(&stream);
  return status == Z_STREAM_END && written == into.size();
}

}  // namespace

Result<ZipReader> ZipReader::open(std::span<std::byte> archive) {
  const auto directory = TRY(find_directory(archive));
  ZipReader reader{archive};
  std::vector<Listed64> all;
  Fields fields{archive.subspan(directory.offset, directory.bytes)};
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    auto listed = TRY(read_directory_entry(fields));
    TRY(find_bytes(archive, listed, directory.offset));
    if (!reader.entries_.emplace(listed.name, listed.entry).second)
      return torn_archive(fmt::format("{} is there twice", listed.name));
    all.push_back(std::move(listed));
  }
  return check_apart(std::move(all)).map([&] { return std::move(reader); });
}

Result<std::span<std::byte>> ZipReader::read(const ZipEntry& entry, std::vector<std::byte>& buffer) const {
  std::span<std::byte> bytes = archive_.subspan(entry.offset, entry.stored_bytes);
  if (entry.is_packed) {
    buffer.resize(entry.bytes);
    if (!unpack(bytes, buffer)) return torn_archive("an entry does not unpack to its size");
    bytes = buffer;
  }
  if (checksum_of(bytes) != entry.crc32)
    return fail(ErrorKind::corrupt, "it is damaged: a checksum in its zip archive does not match");
  return bytes;
}

}  // namespace trainyard::checkpoint
