// Tests with replies that gcp-storage-emulator does not give.
#include "storage/gcs_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/storage/loopback_server.hpp"

namespace trainyard::storage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<GcsStore> gcs_at(const LoopbackServer& server) {
  return std::make_unique<GcsStore>(
      GcsSettings{.bucket = "b", .prefix = "run", .endpoint = server.url(), .tokens = nullptr, .ca_bundle = {}},
      GcsTuning{.http = {.backoff = {.initial = std::chrono::milliseconds{1}, .max = std::chrono::milliseconds{5}}},
                .transfer = {.part_bytes = 4}});
}

TEST(GcsStore, ChecksTheChecksumAmongSeveralHeadersOfOneName) {
  std::string crc = "crc32c=mnG7TA==";
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    EXPECT_EQ(request.target, "/storage/v1/b/b/o/run%2Fa%20b?alt=media");
    response.headers.emplace("X-Goog-Hash", crc);
    response.headers.emplace("X-Goog-Hash", "md5=XUFAKrxLKna5cZ2REBfFkg==");
    response.set_content("hello", "application/octet-stream");
  }};
  EXPECT_EQ(get_text(*gcs_at(server), "a b"), "hello");
  crc = "crc32c=AAAAAA==";
  const auto got = get_text(*gcs_at(server), "a b");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::corrupt);
}

TEST(GcsStore, PutsOnceAgainWhatTheServerHoldsWrong) {
  int puts = 0;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    EXPECT_EQ(request.path, "/upload/storage/v1/b/b/o");
    EXPECT_EQ(request.get_param_value("name"), "run/a");
    EXPECT_EQ(request.get_param_value("ifGenerationMatch"), "0");
    EXPECT_EQ(request.get_header_value("X-Goog-Hash"), "crc32c=AAAAAA==");
    response.set_content(++puts == 1 ? R"({"crc32c": "mnG7TA=="})" : R"({"crc32c": "AAAAAA=="})", "application/json");
  }};
  EXPECT_TRUE(put_text(*gcs_at(server), "a", "", {.if_absent = true}));
  EXPECT_EQ(puts, 2);
}

TEST(GcsStore, ReadsAListToItsLastPageAndSkipsMarksOfFolders) {
  std::vector<std::string> tokens;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    EXPECT_EQ(request.get_param_value("prefix"), "run/st");
    tokens.push_back(request.get_param_value("pageToken"));
    response.set_content(tokens.size() == 1 ? R"({"items": [{"name": "run/", "size": "0"}, {"name": "run/st-2", "size":
                                                  "5000000000"}], "nextPageToken": "x y"})"
                         : tokens.size() == 2 ? R"({"nextPageToken": "z"})"
                                              : R"({"items": [{"name": "run/st-1", "size": "1"}]})",
                         "application/json");
  }};
  EXPECT_EQ(gcs_at(server)->list("st"), (std::vector<ObjectInfo>{{"st-1", 1}, {"st-2", 5'000'000'000}}));
  EXPECT_THAT(tokens, ElementsAre("", "x y", "z"));
}

TEST(GcsStore, SaysThatAReplyIsNoList) {
  for (const char* body : {"", "[]", R"({"items": 1})", R"({"items": [{"name": "run/a"}]})",
                           R"({"items": [{"name": "run/a", "size": "x"}]})"}) {
    LoopbackServer server{
        [&](const httplib::Request&, httplib::Response& response) { response.set_content(body, "application/json"); }};
    const auto listed = gcs_at(server)->list("");
    ASSERT_FALSE(listed) << body;
    EXPECT_EQ(listed.error().kind, ErrorKind::invalid);
    EXPECT_THAT(listed.error().message, HasSubstr("is this Google Cloud Storage?"));
  }
}

// The checksums of the parts may all be right although the object is wrong.
TEST(GcsStore, ComparesWhatBecameOfThePartsWithWhatWasSent) {
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    if (request.method == "GET") return response.set_content(R"({"size": "5", "crc32c": "AAAAAA=="})", "text/plain");
    response.set_header("ETag", "e");
    response.set_content("<UploadId>1</UploadId>", "application/xml");
  }};
  const auto put = put_text(*gcs_at(server), "a", "hello");
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::corrupt);
  EXPECT_THAT(put.error().message, HasSubstr("other bytes than were sent"));
}

}  // namespace
}  // namespace trainyard::storage
