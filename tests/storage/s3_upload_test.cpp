// Uploads in parts, to servers whose replies the tests give.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "storage/s3_store.hpp"
#include "storage/s3_upload.hpp"
#include "tests/storage/environment_table.hpp"
#include "tests/storage/given_credentials.hpp"
#include "tests/storage/loopback_server.hpp"
#include "tests/storage/store_contract.hpp"

namespace trainyard::storage {
namespace {

TEST(S3Upload, FailsForGoodWhereTheEndpointIsNoS3Server) {
  LoopbackServer server{[](const httplib::Request&, httplib::Response& response) {
    response.set_content("<html>Welcome</html>", "text/html");
  }};
  auto config = make_s3_config({.scheme = Scheme::s3, .bucket = "models", .path = "run"}, {.endpoint = server.url()},
                               environment_of({}));
  ASSERT_TRUE(config) << config.error().message;
  config->credentials = given_credentials({"id", "secret", ""});
  S3Store store{*config, {.transfer = {.part_bytes = 1'000, .connection_count = 1}}};
  const std::vector<std::byte> content = contract::some_bytes(1'500);
  const std::span<const std::byte> piece{content};
  const auto put = static_cast<Store&>(store).put("large", {&piece, 1});
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::invalid);
  EXPECT_THAT(put.error().message, testing::HasSubstr(server.url() + " began no upload: is it an S3 server?"));
  EXPECT_EQ(server.request_count(), 1);
}

/// A store whose server the test plays.
S3Store s3_at(const LoopbackServer& server, S3Tuning tuning = {}) {
  auto config = make_s3_config({.scheme = Scheme::s3, .bucket = "models", .path = "run"}, {.endpoint = server.url()},
                               environment_of({}));
  config->credentials = given_credentials({"id", "secret", ""});
  tuning.http.backoff = {.initial = std::chrono::milliseconds{1}, .max = std::chrono::milliseconds{5}};
  return {*config, tuning};
}

TEST(S3Upload, SendsAPartAgainThatGotNoETagAndNamesThePartsInOrder) {
  int parts = 0;
  std::string completion;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    if (request.has_param("uploads")) return response.set_content("<R><UploadId>u</UploadId></R>", "text/xml");
    if (request.method == "POST") completion = request.body;
    if (request.method == "PUT" && ++parts > 1)
      response.set_header("ETag", "\"" + request.get_param_value("partNumber") + "\"");
  }};
  S3Store store = s3_at(server, {.transfer = {.part_bytes = 4, .connection_count = 1}});
  ASSERT_TRUE(put_text(store, "large", "hello"));
  EXPECT_EQ(parts, 3);
  EXPECT_THAT(completion, testing::HasSubstr("<Part><PartNumber>1</PartNumber><ETag>&quot;1&quot;</ETag>"
                                             "<ChecksumCRC32C>"));
  EXPECT_LT(completion.find("<ETag>&quot;1&quot;"), completion.find("<PartNumber>2</PartNumber><ETag>&quot;2&quot;"));
}

TEST(S3Uploads, ThatNobodyCompletedAreListedToTheLastPage) {
  const auto upload = [](const std::string& folder, const std::string& initiated) {
    return "<Upload><Key>run/" + folder + "/a b</Key><UploadId>id-" + folder + "</UploadId><Initiated>" + initiated +
           "</Initiated></Upload>";
  };
  std::vector<std::string> asked;
  std::vector<std::string> removed;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    if (request.method == "DELETE") removed.push_back(request.path + " " + request.get_param_value("uploadId"));
    if (request.has_param("uploadId")) {
      response.status = 404;
      return response.set_content("<Error><Code>NoSuchUpload</Code></Error>", "text/xml");
    }
    EXPECT_EQ(request.get_param_value("prefix"), "run/");
    asked.push_back(request.get_param_value("key-marker") + " " + request.get_param_value("upload-id-marker"));
    const std::string page = asked.size() == 1
                                 ? upload("g-1", "2020-01-01T00:00:00Z") +
                                       "<IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker>"
                                       "<NextUploadIdMarker>i</NextUploadIdMarker>"
                                 : upload("g-2", "2020-01-01T00:00:00Z") + upload("g-3", "2020-01-01T00:00:00Z");
    response.set_content("<ListMultipartUploadsResult>" + page + "</ListMultipartUploadsResult>", "text/xml");
  }};
  ASSERT_TRUE(s3_at(server).remove_unfinished([](std::string_view folder) { return folder != "g-2"; }));
  EXPECT_EQ(asked, (std::vector<std::string>{" ", "k i"}));
  EXPECT_EQ(removed, (std::vector<std::string>{"/models/run/g-1/a b id-g-1", "/models/run/g-3/a b id-g-3"}));
}

TEST(S3List, IsReadToItsLastPageAndSkipsMarksOfFolders) {
  std::vector<std::string> tokens;
  std::string next = "<NextContinuationToken>x y</NextContinuationToken>";
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    EXPECT_EQ(request.get_param_value("prefix"), "run/st");
    tokens.push_back(request.get_param_value("continuation-token"));
    const std::string page = tokens.size() == 1
                                 ? "<IsTruncated>true</IsTruncated>" + next +
                                       "<Contents><Key>run/</Key><Size>0</Size></Contents>"
                                       "<Contents><Key>run/st-2&amp;</Key><Size>5000000000</Size></Contents>"
                                 : "<Contents><Key>run/st-1</Key><Size>1</Size></Contents>";
    response.set_content("<ListBucketResult>" + page + "</ListBucketResult>", "text/xml");
  }};
  EXPECT_EQ(s3_at(server).list("st"), (std::vector<ObjectInfo>{{"st-1", 1}, {"st-2&", 5'000'000'000}}));
  EXPECT_EQ(tokens, (std::vector<std::string>{"", "x y"}));
  tokens.clear();
  next = "";
  const auto endless = s3_at(server).list("st");
  ASSERT_FALSE(endless) << "half of a list must not pass for a whole one";
  EXPECT_EQ(endless.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(endless.error().message, testing::HasSubstr("there are more objects, and not how to ask for them"));
}

TEST(S3Removal, IsAskedForAThousandObjectsAtATime) {
  std::multiset<std::size_t> counts;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    EXPECT_EQ(request.method, "POST");
    std::size_t count = 0;
    for (std::size_t at = request.body.find("<Key>run/"); at != std::string::npos;
         at = request.body.find("<Key>run/", at + 1)) {
      ++count;
    }
    counts.insert(count);
    response.set_content("<DeleteResult/>", "text/xml");
  }};
  std::vector<std::string> keys;
  for (int i = 0; i < 2'001; ++i) keys.push_back("a-" + std::to_string(i));
  const auto removed = static_cast<Store&&>(s3_at(server)).remove_all(keys);
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_EQ(counts, (std::multiset<std::size_t>{1, 1'000, 1'000}));
}

TEST(S3Removal, OfWhatIsNotThereSucceedsUnlessItIsTheBucket) {
  std::string code = "NoSuchKey";
  LoopbackServer server{[&](const httplib::Request&, httplib::Response& response) {
    response.status = 404;
    response.set_content("<Error><Code>" + code + "</Code></Error>", "text/xml");
  }};
  EXPECT_TRUE(s3_at(server).remove("a"));
  code = "NoSuchBucket";
  EXPECT_EQ(s3_at(server).remove("a").error().kind, ErrorKind::not_found);
}

TEST(SliceOf, HoldsTheBytesThatAreAskedForInTheirOrder) {
  const std::vector<std::string> texts = {"ab", "", "cde", "f"};
  std::vector<std::span<const std::byte>> pieces;
  for (const std::string& text : texts) pieces.push_back(std::as_bytes(std::span{text}));
  const std::string whole = "abcdef";
  for (std::size_t begin = 0; begin <= whole.size(); ++begin) {
    for (std::size_t bytes = 0; begin + bytes <= whole.size(); ++bytes) {
      std::string slice;
      for (const auto& piece : slice_of(pieces, begin, bytes)) {
        EXPECT_FALSE(piece.empty());
        slice.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      }
      EXPECT_EQ(slice, whole.substr(begin, bytes));
    }
  }
}

}  // namespace
}  // namespace trainyard::storage
