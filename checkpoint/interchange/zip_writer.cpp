#include "checkpoint/interchange/zip_writer.hpp"

#include <zlib.h>

#include <string_view>
#include <utility>

#include "checkpoint/interchange/little_endian.hpp"
#include "common/try.hpp"

namespace trainyard::checkpoint {
namespace {

constexpr std::uint64_t alignment = 64;
constexpr std::uint64_t limit_32 = 0xffffffff;
constexpr std::uint64_t limit_16 = 0xffff;
constexpr std::uint64_t local_header_bytes = 30;
constexpr std::uint64_t crc_place = 14;  // In a local header.
constexpr std::uint64_t utf8_flag = 1U << 11;
constexpr std::uint64_t version_needed = 45;  // zip64

std::string u16(std::uint64_t number) {
  return little_endian(number, 2);
}
std::string u32(std::uint64_t number) {
  return little_endian(number, 4);
}
std::string u64(std::uint64_t number) {
  return little_endian(number, 8);
}

// A number that does not fit is written as ones; the zip64 extra field holds it.
std::string u32_or_ones(std::uint64_t number) {
  return u32(number >= limit_32 ? limit_32 : number);
}
std::string u16_or_ones(std::uint64_t number) {
  return u16(number >= limit_16 ? limit_16 : number);
}

std::string zip64_extra(const std::string& numbers) {
  return numbers.empty() ? std::string{} : u16(1) + u16(numbers.size()) + numbers;
}

// The fields from the flags to the sizes, which the local header and the directory share. No time, so that equal
// tensors give equal files: 1980-01-01 is the earliest date that the format has.
std::string common_fields(std::uint64_t bytes, std::uint32_t crc32) {
  constexpr std::uint64_t first_date = 0x0021;
  return u16(version_needed) + u16(utf8_flag) + u16(0) + u16(0) + u16(first_date) + u32(crc32) + u32_or_ones(bytes) +
         u32_or_ones(bytes);
}

std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t before) {
  return static_cast<std::uint32_t>(
      ::crc32_z(before, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

}  // namespace

Result<void> ZipWriter::write(std::string_view text) {
  position_ += text.size();
  return sink_.write(std::as_bytes(std::span{text}));
}

Result<void> ZipWriter::begin(std::string name, std::uint64_t bytes) {
  entries_.push_back({.name = std::move(name), .bytes = bytes, .offset = position_});
  const std::string& entry_name = entries_.back().name;
  std::string extra = bytes >= limit_32 ? zip64_extra(u64(bytes) + u64(bytes)) : std::string{};
  const std::uint64_t begin = position_ + local_header_bytes + entry_name.size() + extra.size() + 4;
  const std::uint64_t padding = (alignment - begin % alignment) % alignment;
  extra += "FB" + u16(padding) + std::string(padding, 'Z');
  return write("PK\x03\x04" + common_fields(bytes, 0) + u16(entry_name.size()) + u16(extra.size()) + entry_name +
               extra);
}

Result<void> ZipWriter::append(std::span<const std::byte> bytes) {
  entries_.back().crc32 = crc32_of(bytes, entries_.back().crc32);
  position_ += bytes.size();
  return sink_.write(bytes);
}

Result<void> ZipWriter::end() {
  // The checksum goes into the header afterwards, since the entry is read only once.
  const std::string crc32 = u32(entries_.back().crc32);
  return sink_.patch(entries_.back().offset + crc_place, std::as_bytes(std::span{crc32}));
}

Result<void> ZipWriter::add(std::string name, std::string_view content) {
  return begin(std::move(name), content.size())
      .and_then([&] { return append(std::as_bytes(std::span{content})); })
      .and_then([&] { return end(); });
}

Result<void> ZipWriter::finish() {
  const std::uint64_t directory_offset = position_;
  for (const Entry& entry : entries_) {
    std::string large;
    if (entry.bytes >= limit_32) large += u64(entry.bytes) + u64(entry.bytes);
    if (entry.offset >= limit_32) large += u64(entry.offset);
    const std::string extra = zip64_extra(large);
    TRY(write("PK\x01\x02" + u16(version_needed) + common_fields(entry.bytes, entry.crc32) + u16(entry.name.size()) +
              u16(extra.size()) + u16(0) + u16(0) + u16(0) + u32(0) + u32_or_ones(entry.offset) + entry.name + extra));
  }
  const std::uint64_t directory_bytes = position_ - directory_offset;
  const std::uint64_t count = entries_.size();
  std::string end;
  if (count >= limit_16 || directory_bytes >= limit_32 || directory_offset >= limit_32) {
    constexpr std::uint64_t bytes_behind_size = 44;
    end = "PK\x06\x06" + u64(bytes_behind_size) + u16(version_needed) + u16(version_needed) + u32(0) + u32(0) +
          u64(count) + u64(count) + u64(directory_bytes) + u64(directory_offset) + "PK\x06\x07" + u32(0) +
          u64(position_) + u32(1);
  }
  return write(end + "PK\x05\x06" + u16(0) + u16(0) + u16_or_ones(count) + u16_or_ones(count) +
               u32_or_ones(directory_bytes) + u32_or_ones(directory_offset) + u16(0));
}

}  // namespace trainyard::checkpoint
