#include "checkpoint/group/communicator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace trainyard::checkpoint {
namespace {

BroadcastPart part_of(std::vector<std::string>& texts) {
  BroadcastPart part;
  for (std::string& text : texts) part.spans.push_back(std::as_writable_bytes(std::span{text}));
  return part;
}

TEST(MessagesOf, CutsPartsIntoMessagesThatTakeTurns) {
  struct Row {
    std::vector<std::vector<std::size_t>> sizes;  // The sizes of the spans of each part.
    std::vector<Message> messages;
  };
  const Row rows[] = {
      {{}, {}},
      {{{}}, {}},
      {{{0, 0}}, {}},
      {{{4}}, {{0, 0, 4}}},
      {{{3, 0, 2}}, {{0, 0, 4}, {0, 4, 5}}},
      {{{5}, {}, {9}}, {{0, 0, 4}, {2, 0, 4}, {0, 4, 5}, {2, 4, 8}, {2, 8, 9}}},
  };
  for (const Row& row : rows) {
    std::vector<std::vector<std::string>> texts;
    for (const auto& sizes : row.sizes) {
      auto& own = texts.emplace_back();
      for (const std::size_t size : sizes) own.emplace_back(size, 'x');
    }
    std::vector<BroadcastPart> parts;
    for (auto& own : texts) parts.push_back(part_of(own));
    EXPECT_EQ(messages_of(parts, 4), row.messages) << testing::PrintToString(row.sizes);
  }
}

TEST(CopyOut, AndCopyInCopyAMessageOutOfItsPartAndIntoIt) {
  std::vector<std::string> from{"abc", "", "de", "fgh"};
  std::vector<std::string> to{"...", "", "..", "..."};
  struct Row {
    Message message;
    std::string text;
    std::vector<std::string> after;
  };
  const Row rows[] = {
      {{0, 1, 2}, "b", {".b.", "", "..", "..."}},
      {{0, 2, 6}, "cdef", {".bc", "", "de", "f.."}},
      {{0, 7, 8}, "h", {".bc", "", "de", "f.h"}},
      {{0, 0, 8}, "abcdefgh", {"abc", "", "de", "fgh"}},
  };
  for (const Row& row : rows) {
    std::string text(row.message.bytes(), '?');
    copy_out(part_of(from), row.message, std::as_writable_bytes(std::span{text}));
    EXPECT_EQ(text, row.text);
    copy_in(part_of(to), row.message, std::as_bytes(std::span{text}));
    EXPECT_EQ(to, row.after);
  }
}

}  // namespace
}  // namespace trainyard::checkpoint
