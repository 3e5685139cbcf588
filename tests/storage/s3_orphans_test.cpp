#include "storage/s3_orphans.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/time_text.hpp"

namespace trainyard::storage {
namespace {

Time at(const char* text) {
  return parse_rfc3339(text).value();
}

TEST(ParseUploads, ReadsWhatServersSay) {
  const auto page = parse_uploads(
      "<?xml version=\"1.0\"?><ListMultipartUploadsResult><Bucket>b</Bucket><NextKeyMarker>k&amp;1</NextKeyMarker>"
      "<NextUploadIdMarker>i-1</NextUploadIdMarker><IsTruncated>true</IsTruncated>"
      "<Upload><Key>run/a&amp;b</Key><UploadId>1</UploadId><Initiated>2026-01-01T00:00:00.000Z</Initiated></Upload>"
      "<Upload><Key>run/c</Key><UploadId>2</UploadId><Initiated>lately</Initiated></Upload>"
      "</ListMultipartUploadsResult>",
      "list");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->uploads,
            (std::vector<S3OpenUpload>{{"run/a&b", "1", at("2026-01-01T00:00:00Z")}, {"run/c", "2", std::nullopt}}));
  EXPECT_FALSE(page->is_last);
  EXPECT_EQ(page->next_key, "k&1");
  EXPECT_EQ(page->next_id, "i-1");
  EXPECT_EQ(parse_uploads("<html>", "list").error().kind, ErrorKind::invalid);
}

TEST(Orphans, AreOldUploadsOfAbandonedFoldersUnderThePrefixOnly) {
  const Time long_ago = at("2026-01-01T00:00:00Z");
  const Time limit = at("2026-01-01T01:00:00Z");
  const std::vector<S3OpenUpload> uploads = {
      {"run/step-1/g-1/data", "ours", long_ago},
      {"run/step-1/g-2/data", "lives", long_ago},
      {"run/step-1/g-1/young", "young", limit},
      {"run/step-1/g-1/timeless", "timeless", std::nullopt},
      {"other/step-1/g-1/data", "other", long_ago},
      {"run-2/step-1/g-1/data", "longer name", long_ago},
      {"run/data", "no folder", long_ago},
      {"run/../step-1/g-1/data", "no key", long_ago},
      {"old/step-1/g-1/data", "a prefix as long", long_ago},
  };
  const auto is_abandoned = [](std::string_view folder) { return folder != "step-1/g-2"; };
  EXPECT_EQ(orphans(uploads, "run/", limit, is_abandoned), (std::vector<S3OpenUpload>{uploads[0]}));
}

}  // namespace
}  // namespace trainyard::storage
