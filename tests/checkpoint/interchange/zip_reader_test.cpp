#include "checkpoint/interchange/zip_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "checkpoint/interchange/little_endian.hpp"
#include "checkpoint/interchange/zip_writer.hpp"
#include "tests/checkpoint/interchange/memory_sink.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::HasSubstr;

std::span<std::byte> as_archive(std::string& text) {
  return std::as_writable_bytes(std::span{text});
}

std::string text_in(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Two entries.
std::string two_entries() {
  MemorySink sink;
  ZipWriter zip{sink};
  EXPECT_TRUE(zip.add("archive/a", "first"));
  EXPECT_TRUE(zip.add("archive/b", std::string(300, 'b')));
  EXPECT_TRUE(zip.finish());
  return sink.content;
}

// An archive of one entry of any method, whose directory says `bytes` and `crc32`.
std::string one_entry(std::uint64_t method, const std::string& stored, std::uint64_t bytes, std::uint64_t crc32,
                      std::uint64_t flags = 0) {
  const std::string name = "x";
  const std::string common = little_endian(45, 2) + little_endian(flags, 2) + little_endian(method, 2) +
                             little_endian(0, 4) + little_endian(crc32, 4) + little_endian(stored.size(), 4) +
                             little_endian(bytes, 4) + little_endian(name.size(), 2) + little_endian(0, 2);
  const std::string local = "PK\x03\x04" + common + name;
  const std::string directory =
      "PK\x01\x02" + little_endian(45, 2) + common + std::string(2 + 2 + 2 + 4 + 4, '\0') + name;
  return local + stored + directory + "PK\x05\x06" + std::string(4, '\0') + little_endian(1, 2) + little_endian(1, 2) +
         little_endian(directory.size(), 4) + little_endian(local.size() + stored.size(), 4) + std::string(2, '\0');
}

std::string deflated(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(::deflateBound(&stream, text.size()), '\0');
  std::string input = text;
  stream.next_in = reinterpret_cast<unsigned char*>(input.data());
  stream.avail_in = static_cast<unsigned>(input.size());
  stream.next_out = reinterpret_cast<unsigned char*>(packed.data());
  stream.avail_out = static_cast<unsigned>(packed.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

std::uint32_t crc32_of_text(const std::string& text) {
  return static_cast<std::uint32_t>(
      ::crc32(0, reinterpret_cast<const unsigned char*>(text.data()), static_cast<unsigned>(text.size())));
}

// The content of the only entry, or the error.
std::string only_entry(std::string archive) {
  const auto zip = ZipReader::open(as_archive(archive));
  if (!zip) return zip.error().message;
  std::vector<std::byte> buffer;
  const auto bytes = zip->read(zip->entries().begin()->second, buffer);
  return bytes ? text_in(*bytes) : bytes.error().message;
}

TEST(ZipReader, ReadsWhatOurOwnExportWrites) {
  std::string archive = two_entries();
  const auto zip = ZipReader::open(as_archive(archive));
  ASSERT_TRUE(zip) << zip.error().message;
  ASSERT_EQ(zip->entries().size(), 2U);
  std::vector<std::byte> buffer;
  const auto bytes = zip->read(zip->entries().at("archive/a"), buffer);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(text_in(*bytes), "first");
  EXPECT_EQ(bytes->data(), as_archive(archive).data() + zip->entries().at("archive/a").offset) << "nothing is copied";
}

TEST(ZipReader, FindsTheEndBeforeAComment) {
  std::string archive = two_entries() + "a comment";
  archive[archive.size() - 10] = 0;
  archive[archive.size() - 11] = 9;
  EXPECT_TRUE(ZipReader::open(as_archive(archive)));
  archive[archive.size() - 11] = 8;
  EXPECT_FALSE(ZipReader::open(as_archive(archive)));
}

TEST(ZipReader, UnpacksWhatIsDeflated) {
  for (const std::string& text : {std::string{}, std::string{"x"}, std::string(100'000, 'z')})
    EXPECT_EQ(only_entry(one_entry(8, deflated(text), text.size(), crc32_of_text(text))), text);
}

TEST(ZipReader, RefusesWhatDoesNotUnpackToWhatItSays) {
  const std::string text(1000, 'z');
  const std::uint32_t crc32 = crc32_of_text(text);
  const std::string packed = deflated(text);
  for (const std::string& wrong :
       {one_entry(8, packed, 999, crc32), one_entry(8, packed, 1001, crc32), one_entry(8, "not deflated", 1000, crc32),
        one_entry(8, packed.substr(0, packed.size() - 1), 1000, crc32), one_entry(8, "", 1000, crc32)})
    EXPECT_THAT(only_entry(wrong), HasSubstr("does not unpack to its size"));
  EXPECT_THAT(only_entry(one_entry(8, packed, 1000, crc32 ^ 1U)), HasSubstr("checksum"));
  EXPECT_THAT(only_entry(one_entry(0, text, 1000, crc32 ^ 1U)), HasSubstr("checksum"));
}

TEST(ZipReader, RefusesOtherMethodsAndEncryption) {
  EXPECT_EQ(only_entry(one_entry(0, "abc", 3, crc32_of_text("abc"))), "abc");
  EXPECT_THAT(only_entry(one_entry(12, "abc", 3, 0)), HasSubstr("packed by a method that is not known here"));
  EXPECT_THAT(only_entry(one_entry(0, "abc", 3, 0, 1)), HasSubstr("x in it is encrypted"));
  EXPECT_THAT(only_entry(one_entry(0, "abc", 4, 0)), HasSubstr("x has two sizes"));
}

TEST(ZipReader, RefusesAnArchiveOfSeveralPartsOrWithEntriesThatItsDirectoryLacks) {
  std::string archive = two_entries();
  const std::size_t end = archive.size() - 22;
  const auto refusal_with = [&](std::size_t place, char value) {
    std::string changed = archive;
    changed[end + place] = value;
    const auto refused = ZipReader::open(as_archive(changed));
    return refused ? std::string{} : refused.error().message;
  };
  for (const std::size_t place : {4, 6, 8}) EXPECT_THAT(refusal_with(place, 1), HasSubstr("one of several parts"));
  archive[end + 8] = 100;
  EXPECT_THAT(refusal_with(10, 100), HasSubstr("its directory reaches beyond its end"));
}

/// An archive of "x", which holds "abc", with all sizes and places in zip64's records. `extra` goes before them in the
/// directory's entry.
std::string zip64_archive(const std::string& extra = {}) {
  const std::string ones(4, '\xff');
  const std::string sizes = little_endian(3, 8) + little_endian(3, 8);
  const std::string crc32 = little_endian(crc32_of_text("abc"), 4);
  const std::string common = little_endian(45, 2) + little_endian(0, 2) + little_endian(0, 2) + little_endian(0, 4) +
                             crc32 + ones + ones + little_endian(1, 2);
  const std::string local =
      "PK\x03\x04" + common + little_endian(20, 2) + "x" + little_endian(1, 2) + little_endian(16, 2) + sizes + "abc";
  const std::string numbers = extra + little_endian(1, 2) + little_endian(24, 2) + sizes + little_endian(0, 8);
  const std::string directory = "PK\x01\x02" + little_endian(45, 2) + common + little_endian(numbers.size(), 2) +
                                std::string(2 + 2 + 2 + 4, '\0') + ones + "x" + numbers;
  const std::string record = "PK\x06\x06" + little_endian(44, 8) + little_endian(45, 2) + little_endian(45, 2) +
                             std::string(8, '\0') + little_endian(1, 8) + little_endian(1, 8) +
                             little_endian(directory.size(), 8) + little_endian(local.size(), 8);
  const std::string locator =
      "PK\x06\x07" + std::string(4, '\0') + little_endian(local.size() + directory.size(), 8) + little_endian(1, 4);
  return local + directory + record + locator + "PK\x05\x06" + std::string(4, '\0') + std::string(4, '\xff') + ones +
         ones + std::string(2, '\0');
}

TEST(ZipReader, ReadsTheLargeNumbersOfZip64) {
  EXPECT_EQ(only_entry(zip64_archive()), "abc");
  EXPECT_EQ(only_entry(zip64_archive(little_endian(9, 2) + little_endian(5, 2) + "other")), "abc")
      << "a field of another kind before them";
}

TEST(ZipReader, RefusesAZip64ArchiveWhoseRecordsAreMissing) {
  const std::string whole = zip64_archive();
  const std::pair<const char*, const char*> rows[] = {{"PK\x06\x06", "its zip64 record is missing"},
                                                      {"PK\x06\x07", "its zip64 record is missing"}};
  for (const auto& [mark, says] : rows) {
    std::string changed = whole;
    changed[changed.find(mark)] = 'Q';
    EXPECT_THAT(only_entry(changed), HasSubstr(says));
  }
  std::string beyond = whole;
  beyond[beyond.find("PK\x06\x07") + 15] = '\x7f';
  EXPECT_THAT(only_entry(beyond), HasSubstr("its zip64 record is missing"));
  // The numbers of the entry are cut off.
  std::string without = whole;
  const std::size_t extra = without.find("PK\x01\x02") + 47;
  without[extra] = 2;
  EXPECT_THAT(only_entry(without), HasSubstr("its directory is cut off"));
}

TEST(ZipReader, SaysWhyAFileIsNoArchive) {
  std::string old = "\x80\x02}.";
  const auto refused = ZipReader::open(as_archive(old));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("since torch 1.6"));
}

TEST(ZipReader, RefusesAnArchiveThatIsCutOffAnywhere) {
  const std::string whole = two_entries();
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    std::string cut = whole.substr(0, bytes);
    EXPECT_FALSE(ZipReader::open(as_archive(cut))) << bytes;
  }
}

// Changes every byte of the archive: each entry that the reader still gives lies inside.
TEST(ZipReader, ReadsNothingOutsideTheArchiveForAnyChangedByte) {
  const std::string whole = two_entries();
  for (std::size_t place = 0; place < whole.size(); ++place) {
    for (const char value : {'\0', '\x01', '\x7f', '\xff'}) {
      std::string changed = whole;
      changed[place] = value;
      const auto zip = ZipReader::open(as_archive(changed));
      if (!zip) continue;
      for (const auto& [name, entry] : zip->entries()) {
        std::vector<std::byte> buffer;
        EXPECT_LE(entry.offset + entry.stored_bytes, changed.size());
        if (entry.bytes <= 1'000'000) (void)zip->read(entry, buffer);
      }
    }
  }
}

TEST(ZipReader, RefusesEntriesOverEachOtherAndOneTwice) {
  // The directory's two entries are made equal, but for what is given.
  const auto with_second = [](const std::string& name, std::uint64_t header_offset) {
    const std::string stored = one_entry(0, "abc", 3, crc32_of_text("abc"));
    const std::size_t directory = stored.find("PK\x01\x02");
    std::string second = stored.substr(directory, 46) + name;
    second.replace(42, 4, little_endian(header_offset, 4));
    const std::size_t end = stored.find("PK\x05\x06");
    return stored.substr(0, end) + second + "PK\x05\x06" + std::string(4, '\0') + little_endian(2, 2) +
           little_endian(2, 2) + little_endian(end - directory + second.size(), 4) + little_endian(directory, 4) +
           std::string(2, '\0');
  };
  EXPECT_THAT(only_entry(with_second("x", 0)), HasSubstr("x is there twice"));
  EXPECT_THAT(only_entry(with_second("y", 0)), HasSubstr("y is not where its directory says"));
  EXPECT_THAT(only_entry(with_second("y", 1000)), HasSubstr("y is not where its directory says"));
}

TEST(ZipReader, RefusesAnEntryWithinAnother) {
  // The content of the outer entry is itself the beginning of an archive.
  const std::string inner = one_entry(0, "abc", 3, crc32_of_text("abc"));
  const std::string inner_local = inner.substr(0, inner.find("PK\x01\x02"));
  std::string outer = one_entry(0, inner_local, inner_local.size(), crc32_of_text(inner_local));
  const std::size_t directory = outer.rfind("PK\x01\x02");
  const std::size_t end = outer.rfind("PK\x05\x06");
  // The outer one is called "y", in both places.
  outer[30] = 'y';
  outer[directory + 46] = 'y';
  std::string second = inner.substr(inner.find("PK\x01\x02"), 46) + "x";
  second.replace(42, 4, little_endian(31, 4));
  const std::string archive =
      outer.substr(0, end) + second + "PK\x05\x06" + std::string(4, '\0') + little_endian(2, 2) + little_endian(2, 2) +
      little_endian(end - directory + second.size(), 4) + little_endian(directory, 4) + std::string(2, '\0');
  EXPECT_THAT(only_entry(archive), HasSubstr("overlap"));
}

/// An archive of "x", which has `first`, and "y", whose header follows. Their directory says that the first entry has
/// `more` bytes of the header too.
std::string two_entries_over_each_other(const std::string& first, std::size_t more) {
  const std::string second = one_entry(0, "abc", 3, crc32_of_text("abc"));
  std::string second_local = second.substr(0, second.find("PK\x01\x02"));
  second_local[30] = 'y';
  const std::string content = first + second_local.substr(0, more);
  std::string archive = one_entry(0, content, content.size(), crc32_of_text(content));
  std::string directory = archive.substr(archive.find("PK\x01\x02"), 47);
  std::string second_directory = second.substr(second.find("PK\x01\x02"), 47);
  second_directory[46] = 'y';
  archive = archive.substr(0, archive.find("PK\x01\x02") - more);
  second_directory.replace(42, 4, little_endian(archive.size(), 4));
  archive += second_local;
  directory += second_directory;
  return archive + directory + "PK\x05\x06" + std::string(4, '\0') + little_endian(2, 2) + little_endian(2, 2) +
         little_endian(directory.size(), 4) + little_endian(archive.size(), 4) + std::string(2, '\0');
}

TEST(ZipReader, RefusesAnEntryThatEndsWithinTheNextOnesHeader) {
  std::string apart = two_entries_over_each_other("hello", 0);
  const auto zip = ZipReader::open(as_archive(apart));
  ASSERT_TRUE(zip) << zip.error().message;
  EXPECT_EQ(zip->entries().size(), 2U);
  for (const std::size_t more : {1, 29})
    EXPECT_THAT(only_entry(two_entries_over_each_other("hello", more)), HasSubstr("x and y overlap"));
}

}  // namespace
}  // namespace trainyard::checkpoint
