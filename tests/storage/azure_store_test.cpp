// Tests with replies that azurite does not give.
#include "storage/azure_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/storage/environment_table.hpp"
#include "tests/storage/loopback_server.hpp"

namespace trainyard::storage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<AzureStore> azure_at(const LoopbackServer& server) {
  auto place = make_azure_place({.scheme = Scheme::az, .bucket = "c", .path = "run"},
                                environment_of({{"AZURE_STORAGE_ACCOUNT_NAME", "acme"},
                                                {"AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=hush%3D"},
                                                {"AZURE_STORAGE_BLOB_ENDPOINT", server.url() + "/acme"}}))
                   .value();
  return std::make_unique<AzureStore>(
      std::move(place),
      AzureTuning{.http = {.backoff = {.initial = std::chrono::milliseconds{1}, .max = std::chrono::milliseconds{5}}},
                  .transfer = {.part_bytes = 9},
                  .list_pages_max = 5});
}

TEST(AzureStore, ReadsAListToItsLastPageAndSkipsFolders) {
  std::vector<std::string> markers;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    EXPECT_EQ(request.path, "/acme/c");
    EXPECT_EQ(request.get_param_value("sig"), "hush=");
    EXPECT_EQ(request.get_param_value("prefix"), "run/st");
    markers.push_back(request.has_param("marker") ? request.get_param_value("marker") : "none");
    const bool is_first = markers.size() == 1;
    response.set_content(
        is_first
            ? "\xEF\xBB\xBF<?xml version=\"1.0\"?><EnumerationResults><Blobs>"
              "<Blob><Name>run/st-3</Name><Properties><Content-Length>0</Content-Length>"
              "<ResourceType>directory</ResourceType></Properties></Blob>"
              "<Blob><Name>run/st-4</Name><Properties><Content-Length>0</Content-Length></Properties>"
              "<Metadata><hdi_isfolder>true</hdi_isfolder></Metadata></Blob>"
              "<Blob><Name>run/st-5/</Name><Properties><Content-Length>0</Content-Length></Properties></Blob>"
              "<Blob><Name>run/st-2&amp;</Name><Properties><Content-Length>5000000000</Content-Length>"
              "<ResourceType>file</ResourceType></Properties><Metadata /></Blob>"
              "</Blobs><NextMarker>m</NextMarker></EnumerationResults>"
            : "<EnumerationResults><Blobs><Blob><Name>run/st-1</Name><Properties><Content-Length>1</Content-Length>"
              "</Properties></Blob></Blobs><NextMarker /></EnumerationResults>",
        "application/xml");
  }};
  EXPECT_EQ(azure_at(server)->list("st"), (std::vector<ObjectInfo>{{"st-1", 1}, {"st-2&", 5'000'000'000}}));
  EXPECT_THAT(markers, ElementsAre("none", "m"));
}

TEST(AzureStore, GivesUpAListThatDoesNotEnd) {
  LoopbackServer server{[](const httplib::Request&, httplib::Response& response) {
    response.set_content("<EnumerationResults><NextMarker>the same</NextMarker></EnumerationResults>", "text/xml");
  }};
  const auto listed = azure_at(server)->list("");
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(server.request_count(), 5);
}

TEST(AzureStore, SaysThatAReplyIsNoList) {
  const std::pair<std::string, std::string> rows[] = {
      {"<html>", "is this Azure Blob Storage?"},
      {"<EnumerationResults><Blobs><Blob><Name>run/a</Name></Blob></Blobs></EnumerationResults>",
       "the server does not give the size of run/a"}};
  for (const auto& [body, says] : rows) {
    LoopbackServer server{[&, body = body](const httplib::Request&, httplib::Response& response) {
      response.set_content(body, "text/xml");
    }};
    const auto listed = azure_at(server)->list("");
    ASSERT_FALSE(listed) << body;
    EXPECT_EQ(listed.error().kind, ErrorKind::invalid);
    EXPECT_THAT(listed.error().message, HasSubstr(says));
  }
}

TEST(AzureStore, PutsASmallBlobWithItsChecksum) {
  LoopbackServer server{[](const httplib::Request& request, httplib::Response& response) {
    response.status = 201;
    EXPECT_EQ(request.get_header_value("x-ms-blob-type"), "BlockBlob");
    EXPECT_EQ(request.get_header_value("Content-MD5"), "XUFAKrxLKna5cZ2REBfFkg==");
    EXPECT_FALSE(request.has_header("If-None-Match"));
  }};
  EXPECT_TRUE(put_text(*azure_at(server), "a", "hello"));
  EXPECT_EQ(server.request_count(), 1);
}

TEST(AzureStore, PutsWhatFitsIntoOneBlockInOnePiece) {
  LoopbackServer server{[](const httplib::Request& request, httplib::Response& response) {
    EXPECT_FALSE(request.has_param("comp"));
    response.status = 201;
  }};
  EXPECT_TRUE(put_text(*azure_at(server), "a", "123456789"));
  EXPECT_EQ(server.request_count(), 1);
}

TEST(AzureStore, NamesItsVersionAndTimeAndSignsNothingBesideASasToken) {
  LoopbackServer server{[](const httplib::Request& request, httplib::Response& response) {
    EXPECT_EQ(request.get_header_value("x-ms-version"), "2021-12-02");
    EXPECT_THAT(request.get_header_value("x-ms-date"), testing::EndsWith(" GMT"));
    EXPECT_FALSE(request.has_header("Authorization"));
    response.status = 201;
  }};
  EXPECT_TRUE(put_text(*azure_at(server), "a", "hello"));
}

TEST(AzureStore, RemovesABlobWithItsSnapshots) {
  std::string code = "BlobNotFound";
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    EXPECT_EQ(request.get_header_value("x-ms-delete-snapshots"), "include");
    response.status = 404;
    response.set_header("x-ms-error-code", code);
  }};
  EXPECT_TRUE(azure_at(server)->remove("a")) << "it is gone already";
  code = "ContainerNotFound";
  EXPECT_EQ(azure_at(server)->remove("a").error().kind, ErrorKind::not_found);
  code = "";
  EXPECT_FALSE(azure_at(server)->remove("a")) << "perhaps it is no Azure";
}

TEST(AzureStore, GivesUpAnUploadWhoseBlocksAreDroppedAgainAndAgain) {
  int commits = 0;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    response.status = 201;
    if (request.get_param_value("comp") != "blocklist") return;
    ++commits;
    response.status = 400;
    response.set_header("x-ms-error-code", "InvalidBlockList");
  }};
  EXPECT_EQ(put_text(*azure_at(server), "a", "1234567890").error().kind, ErrorKind::gone);
  EXPECT_EQ(commits, 3);
}

TEST(AzureStore, SendsBlocksWithChecksumsAndMakesTheBlobOnItsCondition) {
  std::vector<std::string> blocks;
  std::vector<std::string> checksums;
  std::string list;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    EXPECT_EQ(request.path, "/acme/c/run/a b");
    response.status = 201;
    if (request.get_param_value("comp") == "blocklist") {
      EXPECT_EQ(request.get_header_value("If-None-Match"), "*");
      list = request.body;
      return;
    }
    EXPECT_FALSE(request.has_header("If-None-Match")) << "the condition is the blob's, and not a block's";
    blocks.push_back(request.get_param_value("blockid"));
    checksums.push_back(request.get_header_value("Content-MD5"));
  }};
  ASSERT_TRUE(put_text(*azure_at(server), "a b", "123456789123456789", {.if_absent = true}));
  EXPECT_THAT(checksums, ElementsAre("JfnnlDI7RTiF9RgfG2JNCw==", "JfnnlDI7RTiF9RgfG2JNCw=="));
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(blocks[0].size(), blocks[1].size());
  std::ranges::sort(blocks);
  EXPECT_THAT(list, testing::EndsWith("<BlockList><Latest>" + blocks[0] + "</Latest><Latest>" + blocks[1] +
                                      "</Latest></BlockList>"));
}

TEST(AzureStore, GivesAllBlocksIdsOfOneLengthHoweverManyThereAre) {
  std::set<std::size_t> lengths;
  int blocks = 0;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    response.status = 201;
    EXPECT_FALSE(request.has_header("If-None-Match"));
    if (request.get_param_value("comp") != "block") return;
    lengths.insert(request.get_param_value("blockid").size());
    ++blocks;
  }};
  ASSERT_TRUE(put_text(*azure_at(server), "a", std::string(100, 'x')));
  EXPECT_GT(blocks, 10);
  EXPECT_EQ(lengths.size(), 1U) << "the service takes no others";
}

TEST(AzureStore, SendsABlockAgainThatTheServerHoldsWrong) {
  int blocks = 0;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    response.status = 201;
    if (request.get_param_value("comp") != "block") return;
    response.set_header("Content-MD5",
                        ++blocks == 1 ? "AAAAAAAAAAAAAAAAAAAAAA==" : request.get_header_value("Content-MD5"));
  }};
  EXPECT_TRUE(put_text(*azure_at(server), "a", "1234567890"));
  EXPECT_EQ(blocks, 3);
}

TEST(AzureStore, ChecksWhatItReadsIfTheServerSendsAChecksum) {
  std::string md5 = "XUFAKrxLKna5cZ2REBfFkg==";
  LoopbackServer server{[&](const httplib::Request&, httplib::Response& response) {
    if (!md5.empty()) response.set_header("Content-MD5", md5);
    response.set_content("hello", "application/octet-stream");
  }};
  EXPECT_EQ(get_text(*azure_at(server), "a"), "hello");
  md5 = "";
  EXPECT_EQ(get_text(*azure_at(server), "a"), "hello");
  md5 = "AAAAAAAAAAAAAAAAAAAAAA==";
  EXPECT_EQ(get_text(*azure_at(server), "a").error().kind, ErrorKind::corrupt);
}

TEST(AzureStore, AsksForATokenWhereThereIsNoKey) {
  const Uri uri{.scheme = Scheme::az, .bucket = "c", .path = "run"};
  EXPECT_TRUE(make_azure_place(uri, environment_of({{"AZURE_STORAGE_ACCOUNT", "acme"}}))->tokens);
  EXPECT_FALSE(make_azure_place(uri, environment_of({{"AZURE_STORAGE_ACCOUNT", "acme"}, {"AZURE_STORAGE_KEY", "a2V5"}}))
                   ->tokens);
}

}  // namespace
}  // namespace trainyard::storage
