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
using testing::UnorderedElementsAre;

std::unique_ptr<GcsStore> gcs_at(const LoopbackServer& server,
                                 std::chrono::milliseconds first_patience = std::chrono::seconds{10}) {
  return std::make_unique<GcsStore>(
      GcsSettings{.bucket = "b", .prefix = "run", .endpoint = server.url(), .tokens = nullptr, .ca_bundle = {}},
      GcsTuning{.http = {.first_patience = first_patience,
                         .backoff = {.initial = std::chrono::milliseconds{1}, .max = std::chrono::milliseconds{5}}},
                .transfer = {.part_bytes = 4},
                .list_pages_max = 5});
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
    tokens.push_back(request.has_param("pageToken") ? request.get_param_value("pageToken") : "none");
    response.set_content(tokens.size() == 1 ? R"({"items": [{"name": "run/", "size": "0"}, {"name": "run/st-2", "size":
                                                  "5000000000"}], "nextPageToken": "x y"})"
                         : tokens.size() == 2 ? R"({"nextPageToken": "z"})"
                                              : R"({"items": [{"name": "run/st-1", "size": "1"}]})",
                         "application/json");
  }};
  EXPECT_EQ(gcs_at(server)->list("st"), (std::vector<ObjectInfo>{{"st-1", 1}, {"st-2", 5'000'000'000}}));
  EXPECT_THAT(tokens, ElementsAre("none", "x y", "z"));
}

TEST(GcsStore, GivesUpAListThatDoesNotEnd) {
  LoopbackServer server{[](const httplib::Request&, httplib::Response& response) {
    response.set_content(R"({"nextPageToken": "the same"})", "application/json");
  }};
  const auto listed = gcs_at(server)->list("");
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(server.request_count(), 5);
}

TEST(GcsStore, SaysThatAReplyIsNoList) {
  for (const char* body :
       {"", "[]", R"({"items": 1})", R"({"items": {}})", R"({"items": [1]})", R"({"items": [{"name": "run/a"}]})",
        R"({"items": [{"size": "1"}]})", R"({"items": [{"name": "run/a", "size": "x"}]})"}) {
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

/// A server that takes a multipart upload of "hello" in two parts, except for what a test changes in its replies.
class AGcsUpload : public testing::Test {
 protected:
  LoopbackServer server{[this](const httplib::Request& request, httplib::Response& response) {
    if (request.method == "GET") return response.set_content(held, "application/json");
    if (request.has_param("uploads")) {
      response.status = begin_status;
      return ++begins, response.set_content(begun, "application/xml");
    }
    if (request.method == "DELETE") return void(++aborts);
    if (request.has_param("partNumber")) {
      const std::string hash = request.get_header_value("X-Goog-Hash");
      sent.push_back(request.get_param_value("partNumber") + " " + request.body + " " + hash);
      if (++parts != 1 || has_etag) response.set_header("ETag", "\"e\"");
      response.set_header("X-Goog-Hash", parts == 1 && is_changed ? "crc32c=AAAAAA==" : hash);
    } else if (request.has_param("uploadId")) {
      completion = request.body;
      response.status = refusals.empty() ? 200 : refusals.front();
      if (!refusals.empty()) refusals.erase(refusals.begin());
      if (response.status == 404) response.set_content("<Error><Code>NoSuchUpload</Code></Error>", "application/xml");
      if (++completions == 1 && response.status == 200) response.set_content(completed, "application/xml");
    } else {
      ++streams;
      conditions.push_back(request.get_param_value("ifGenerationMatch"));
    }
  }};
  std::string held = R"({"size": "5", "crc32c": "mnG7TA=="})";
  std::string begun = "<UploadId>1</UploadId>";
  int begin_status = 200;
  bool has_etag = true;
  bool is_changed = false;
  std::vector<int> refusals;  // Statuses of the first replies to a completion.
  std::string completed;
  std::string completion;
  std::vector<std::string> sent;        // "NUMBER BYTES HASH" of each part.
  std::vector<std::string> conditions;  // One for each stream.
  int begins = 0;
  int parts = 0;
  int completions = 0;
  int aborts = 0;
  int streams = 0;
};

TEST_F(AGcsUpload, NamesThePartsInOrder) {
  ASSERT_TRUE(put_text(*gcs_at(server), "a", "hello"));
  EXPECT_EQ(completion,
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>&quot;e&quot;</ETag></Part>"
            "<Part><PartNumber>2</PartNumber><ETag>&quot;e&quot;</ETag></Part></CompleteMultipartUpload>");
  EXPECT_EQ(aborts, 0);
}

TEST_F(AGcsUpload, SendsEachPartWithItsNumberAndItsOwnChecksum) {
  ASSERT_TRUE(put_text(*gcs_at(server), "a", "hello"));
  EXPECT_THAT(sent, UnorderedElementsAre("1 hell crc32c=oJn1NA==", "2 o crc32c=baj8Fw=="));
}

TEST_F(AGcsUpload, HasNoEmptyPartAtItsEnd) {
  held = R"({"size": "8", "crc32c": "f0IopA=="})";
  ASSERT_TRUE(put_text(*gcs_at(server), "a", "hellohel"));
  EXPECT_EQ(parts, 2);
}

TEST_F(AGcsUpload, IsNotMadeForWhatFitsIntoOnePartOrMustNotExistYet) {
  ASSERT_TRUE(put_text(*gcs_at(server), "a", "hell"));
  ASSERT_TRUE(put_text(*gcs_at(server), "a", "hello", {.if_absent = true}));
  EXPECT_THAT(conditions, ElementsAre("", "0"));
  EXPECT_EQ(begins, 0);
}

TEST_F(AGcsUpload, IsRemovedAndNotRepeatedWhenItsCompletionIsRefused) {
  refusals = {403};
  EXPECT_EQ(put_text(*gcs_at(server), "a", "hello").error().kind, ErrorKind::forbidden);
  EXPECT_EQ(begins, 1);
  EXPECT_EQ(aborts, 1) << "its parts cost money";
}

TEST_F(AGcsUpload, IsBegunThreeTimesWhereSomebodyEndsItAlthoughAnOlderObjectHoldsTheSameBytes) {
  refusals = {404, 404, 404};
  const auto put = put_text(*gcs_at(server), "a", "hello");
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::gone);
  EXPECT_EQ(begins, 3);
  EXPECT_EQ(parts, 6);
  EXPECT_EQ(aborts, 3);
}

TEST_F(AGcsUpload, IsDoneWhereItIsGoneAfterALostReplyAndTheObjectIsThere) {
  refusals = {500, 404};
  EXPECT_TRUE(put_text(*gcs_at(server), "a", "hello"));
  EXPECT_EQ(begins, 1);
  EXPECT_EQ(completions, 2);
}

TEST_F(AGcsUpload, SendsAPartAgainThatTheServerHoldsWrongOrGivesNoETag) {
  is_changed = true;
  ASSERT_TRUE(put_text(*gcs_at(server), "a", "hello"));
  EXPECT_EQ(parts, 3);
  parts = 0;
  is_changed = false;
  has_etag = false;
  ASSERT_TRUE(put_text(*gcs_at(server), "a", "hello"));
  EXPECT_EQ(parts, 3);
}

TEST_F(AGcsUpload, IsCompletedAgainAfterAnErrorWithinASuccess) {
  completed = "<Error><Code>InternalError</Code></Error>";
  ASSERT_TRUE(put_text(*gcs_at(server), "a", "hello"));
  EXPECT_EQ(completions, 2);
}

TEST_F(AGcsUpload, IsOneStreamWhereTheServerBeginsNone) {
  begun = "<html>";
  const auto store = gcs_at(server);
  ASSERT_TRUE(put_text(*store, "a", "hello"));
  ASSERT_TRUE(put_text(*store, "b", "hello"));
  EXPECT_EQ(begins, 1) << "it is asked once";
  EXPECT_EQ(parts, 0);
  EXPECT_EQ(streams, 2);
}

TEST_F(AGcsUpload, FailsInAnOutageAtItsBeginAndIsBegunAgainByTheNextPut) {
  const auto store = gcs_at(server, std::chrono::milliseconds{0});  // The first error is final.
  begin_status = 503;
  const auto put = put_text(*store, "a", "hello");
  begin_status = 200;
  ASSERT_FALSE(put) << "streams: " << streams;
  EXPECT_EQ(put.error().kind, ErrorKind::throttled) << put.error().message;
  ASSERT_TRUE(put_text(*store, "a", "hello"));
  EXPECT_EQ(begins, 2);
  EXPECT_EQ(parts, 2);
  EXPECT_EQ(streams, 0);
}

/// Unfinished uploads of folders g-1 and g-2, on two pages.
class UnfinishedGcsUploads : public testing::Test {
 protected:
  static std::string upload(const std::string& folder, const std::string& initiated) {
    return "<Upload><Key>run/" + folder + "/a b</Key><UploadId>id-" + folder + "</UploadId><Initiated>" + initiated +
           "</Initiated></Upload>";
  }
  Result<void> remove_all_old(int status = 200) {
    LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
      response.status = status;
      if (request.method == "DELETE") {
        removed.push_back(request.path + " " + request.get_param_value("uploadId"));
        return;
      }
      EXPECT_EQ(request.path, "/b");
      EXPECT_EQ(request.get_param_value("prefix"), "run/");
      const auto of = [&](const char* name) {
        return request.has_param(name) ? request.get_param_value(name) : std::string{"none"};
      };
      asked.push_back(of("key-marker") + " " + of("upload-id-marker"));
      const std::string page = asked.size() == 1
                                   ? upload("g-1", "2020-01-01T00:00:00Z") +
                                         "<IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker>"
                                         "<NextUploadIdMarker>i</NextUploadIdMarker>"
                                   : upload("g-2", "2020-01-01T00:00:00Z") + upload("g-1", "2100-01-01T00:00:00Z");
      response.set_content("<ListMultipartUploadsResult>" + page + "</ListMultipartUploadsResult>", "text/xml");
    }};
    GcsStore store{
        GcsSettings{.bucket = "b", .prefix = "run", .endpoint = server.url(), .tokens = nullptr, .ca_bundle = {}},
        GcsTuning{.http = {.first_patience = std::chrono::milliseconds{1}}}};
    return store.remove_unfinished([](std::string_view folder) { return folder == "g-1"; });
  }
  std::vector<std::string> asked;
  std::vector<std::string> removed;
};

TEST_F(UnfinishedGcsUploads, AreRemovedFromAllPagesOnceTheyAreOld) {
  ASSERT_TRUE(remove_all_old());
  EXPECT_THAT(asked, ElementsAre("none none", "k i"));
  EXPECT_THAT(removed, ElementsAre("/b/run/g-1/a b id-g-1")) << "the other upload of this folder is young";
}

TEST_F(UnfinishedGcsUploads, AreLeftWhereTheyMayNotBeListedButNotInAnOutage) {
  EXPECT_TRUE(remove_all_old(403));
  EXPECT_EQ(remove_all_old(500).error().kind, ErrorKind::unavailable);
  EXPECT_TRUE(removed.empty());
}

TEST(GcsStore, EndsAListOfUploadsThatIsCutAndNamesNoNextPage) {
  LoopbackServer server{[](const httplib::Request&, httplib::Response& response) {
    response.set_content("<ListMultipartUploadsResult><IsTruncated>true</IsTruncated></ListMultipartUploadsResult>",
                         "text/xml");
  }};
  EXPECT_TRUE(gcs_at(server)->remove_unfinished([](std::string_view) { return true; }));
  EXPECT_EQ(server.request_count(), 1);
}

}  // namespace
}  // namespace trainyard::storage
