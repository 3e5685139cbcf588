#include "storage/web_store.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/certificate_authority.hpp"
#include "tests/fakes/fault_proxy.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/loopback_server.hpp"
#include "tests/storage/store_contract.hpp"

namespace trainyard::storage {
namespace {

using fakes::Fault;
using fakes::FaultProxy;
using fakes::ProxiedRequest;
using testing::HasSubstr;

/// A web server with files below /data, and stores that read them.
class WebStoreTest : public testing::Test {
 protected:
  WebStore open(const std::string& origin) { return {parse_uri(origin + "/data").value(), tuning}; }
  WebStore open(std::uint16_t port) { return open(fmt::format("http://127.0.0.1:{}", port)); }

  std::map<std::string, std::string> files = {
      {"/data/index.txt", "# all of it\r\ntrain/images\r\n\nlabels\ntrain/images\n"},
      {"/data/train/images", std::string(3'000, 'i')},
      {"/data/labels", "0123456789"}};
  WebTuning tuning{.http = {.patience = std::chrono::minutes{2},
                            .first_patience = std::chrono::minutes{2},
                            .backoff = {.initial = std::chrono::milliseconds{1}, .max = std::chrono::milliseconds{20}},
                            .ca_bundle = ""},
                   .transfer = {.part_bytes = 1'024}};
  LoopbackServer server{[this](const httplib::Request& request, httplib::Response& response) {
    const auto file = files.find(request.path);
    if (file == files.end()) {
      response.status = 404;
    } else {
      response.set_content(file->second, "application/octet-stream");  // httplib cuts the range out of it.
    }
  }};
};

TEST_F(WebStoreTest, ListsWhatTheIndexNamesWithTheLengthsThatTheServerSends) {
  WebStore store = open(server.url());
  EXPECT_EQ(store.list(""), (std::vector<ObjectInfo>{{"labels", 10}, {"train/images", 3'000}}));
  EXPECT_EQ(store.list("train/"), (std::vector<ObjectInfo>{{"train/images", 3'000}}));
  EXPECT_TRUE(store.probe());
}

TEST_F(WebStoreTest, ReadsWholeFilesAndPartsOfThem) {
  WebStore store = open(server.url());
  EXPECT_EQ(get_text(store, "labels"), "0123456789");
  std::string part(4, '-');
  ASSERT_TRUE(store.get_range("labels", 3, std::as_writable_bytes(std::span{part})));
  EXPECT_EQ(part, "3456");
  files["/data/large"] = std::string(5'000, 'a') + std::string(5'000, 'b');
  std::string middle(6'000, '-');
  ASSERT_TRUE(store.get_range("large", 2'000, std::as_writable_bytes(std::span{middle})));
  EXPECT_EQ(middle, std::string(3'000, 'a') + std::string(3'000, 'b'));
}

TEST_F(WebStoreTest, ReadsFilesWhoseNamesHoldCharactersThatMeanSomethingInAUrl) {
  files = {{"/data/index.txt", "a b\nc#d\ne%41\nf?g\n"},
           {"/data/a b", "space"},
           {"/data/c#d", "hash"},
           {"/data/e%41", "percent"},
           {"/data/f?g", "question mark"}};
  WebStore store = open(server.url());
  EXPECT_EQ(store.list(""), (std::vector<ObjectInfo>{{"a b", 5}, {"c#d", 4}, {"e%41", 7}, {"f?g", 13}}));
  for (const char* key : {"a b", "c#d", "e%41", "f?g"})
    EXPECT_EQ(get_text(store, key), files[std::string{"/data/"} + key]) << key;
}

TEST_F(WebStoreTest, ReportsAFileThatEndsTooEarly) {
  std::vector<std::byte> into(20);
  const auto read = open(server.url()).get_range("labels", 0, into);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, ErrorKind::corrupt) << read.error().message;
}

TEST_F(WebStoreTest, RefusesAServerThatKnowsNoRangesInsteadOfTakingTheWrongBytes) {
  FaultProxy proxy{static_cast<std::uint16_t>(server.port()), [](const ProxiedRequest&) {
                     return Fault{Fault::Kind::reply, fakes::http_reply(200, "", "0123456789"), 0};
                   }};
  WebStore store = open(proxy.port());
  for (const std::uint64_t offset : {0U, 3U}) {
    std::vector<std::byte> into(4);
    const auto read = store.get_range("labels", offset, into);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().kind, ErrorKind::invalid);
    EXPECT_THAT(read.error().message, HasSubstr("must know Range"));
  }
  std::vector<std::byte> all(10);
  EXPECT_TRUE(store.get_range("labels", 0, all)) << "all of it is what was asked for";
  const auto read = store.get_range("labels", 3, all);
  ASSERT_FALSE(read) << "the part is as long as all of it";
  EXPECT_EQ(read.error().kind, ErrorKind::invalid);
}

TEST_F(WebStoreTest, RefusesAPartThatIsNotTheOneAskedFor) {
  for (const char* header : {"", "Content-Range: bytes 0-3/10\r\n", "Content-Range: bytes 30-33/40\r\n"}) {
    FaultProxy proxy{1, [&](const ProxiedRequest&) {
                       return Fault{Fault::Kind::reply, fakes::http_reply(206, header, "0123"), 0};
                     }};
    std::vector<std::byte> into(4);
    const auto read = open(proxy.port()).get_range("labels", 3, into);
    ASSERT_FALSE(read) << header;
    EXPECT_EQ(read.error().kind, ErrorKind::corrupt) << read.error().message;
  }
}

TEST_F(WebStoreTest, RefusesAListWhoseLengthsTheServerDoesNotSend) {
  FaultProxy proxy{static_cast<std::uint16_t>(server.port()), [](const ProxiedRequest& request) {
                     if (request.method != "HEAD") return Fault{};
                     return Fault{Fault::Kind::reply, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", 0};
                   }};
  const auto listed = open(proxy.port()).list("");
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().kind, ErrorKind::invalid);
  EXPECT_THAT(listed.error().message, HasSubstr("the server does not give its length"));
}

TEST(ParseIndex, LeavesOutCommentsBlanksAndWhatIsNamedTwice) {
  EXPECT_EQ(parse_index("b/c \r\n# d\n\n  \na\nb/c"), (std::vector<ObjectInfo>{{"a", 0}, {"b/c", 0}}));
  EXPECT_EQ(parse_index(""), std::vector<ObjectInfo>{});
  for (const char* text : {"/a", "a//b", ".a", "a\tb"}) EXPECT_FALSE(parse_index(text)) << text;
}

TEST_F(WebStoreTest, SaysWhatIsNeededWhereThereIsNoIndex) {
  files.erase("/data/index.txt");
  WebStore store = open(server.url());
  for (const Error& error : {store.list("").error(), store.probe().error()}) {
    EXPECT_EQ(error.kind, ErrorKind::not_found);
    EXPECT_THAT(error.message, HasSubstr(server.url() + "/data/index.txt"));
    EXPECT_THAT(error.message, HasSubstr("put one there, with one file's path a line"));
  }
  files["/data/index.txt"] = "missing\n";
  EXPECT_EQ(store.list("").error().kind, ErrorKind::not_found);
  EXPECT_THAT(store.list("").error().message, HasSubstr("which index.txt names"));
  files["/data/index.txt"] = "../passwords\n";
  EXPECT_EQ(store.list("").error().kind, ErrorKind::invalid);
}

TEST_F(WebStoreTest, DoesNotSayThatAnIndexThatMayNotBeReadIsMissing) {
  FaultProxy proxy{1, [](const ProxiedRequest&) {
                     return Fault{Fault::Kind::reply, fakes::http_reply(403, "", ""), 0};
                   }};
  const auto listed = open(proxy.port()).list("");
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().kind, ErrorKind::forbidden);
  EXPECT_THAT(listed.error().message, testing::Not(HasSubstr("put one there")));
}

TEST_F(WebStoreTest, CannotBeWrittenTo) {
  WebStore store = open(server.url());
  EXPECT_EQ(put_text(store, "a", "x").error().kind, ErrorKind::invalid);
  EXPECT_EQ(store.remove("labels").error().kind, ErrorKind::invalid);
  EXPECT_TRUE(store.remove_unfinished([](std::string_view) { return true; }));
  EXPECT_EQ(server.request_count(), 0);
}

TEST_F(WebStoreTest, DistinguishesFaultsThatMayPassFromOthers) {
  tuning.http.first_patience = std::chrono::milliseconds{50};
  const std::pair<int, ErrorKind> rows[] = {{401, ErrorKind::unauthorized}, {403, ErrorKind::forbidden},
                                            {404, ErrorKind::not_found},    {400, ErrorKind::invalid},
                                            {429, ErrorKind::throttled},    {503, ErrorKind::throttled},
                                            {500, ErrorKind::unavailable}};
  for (const auto& [status, kind] : rows) {
    FaultProxy proxy{1, [status = status](const ProxiedRequest&) {
                       return Fault{Fault::Kind::reply, fakes::http_reply(status, "", "words"), 0};
                     }};
    WebStore store = open(proxy.port());
    const auto text = get_text(store, "labels");
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().kind, kind) << text.error().message;
    EXPECT_EQ(proxy.request_count() > 1, is_transient(kind)) << status;
  }
}

TEST_F(WebStoreTest, ReadsAfterAllWhatFailsTwice) {
  using Kind = Fault::Kind;
  files["/data/large"] = std::string(50'000, 'a');
  tuning.http.stall_timeout = std::chrono::seconds{1};
  const Fault faults[] = {{Kind::half_reply, "", 0},
                          {Kind::reset_request, "", 0},
                          {Kind::lose_reply, "", 0},
                          {Kind::stall, "", 0},
                          {Kind::reply, fakes::http_reply(502, "", "Bad Gateway"), 0},
                          {Kind::reply, fakes::http_reply(429, "Retry-After: 0\r\n", ""), 0}};
  for (const Fault& fault : faults) {
    FaultProxy proxy{static_cast<std::uint16_t>(server.port()),
                     [&](const ProxiedRequest& request) { return request.number <= 2 ? fault : Fault{}; }};
    WebStore store = open(proxy.port());
    EXPECT_EQ(get_text(store, "large"), files["/data/large"]);
  }
}

TEST_F(WebStoreTest, FollowsAFewRedirects) {
  int hops = 0;
  LoopbackServer front{[&](const httplib::Request& request, httplib::Response& response) {
    ++hops;
    response.set_redirect(hops <= 2 ? "/again" : server.url() + (request.path == "/again" ? "/data/labels" : "/"));
  }};
  WebStore store = open(front.url());
  EXPECT_EQ(get_text(store, "labels"), "0123456789");
  hops = -1'000;
  const auto lost = get_text(store, "labels");
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().kind, ErrorKind::invalid) << lost.error().message;
  EXPECT_EQ(hops, -1'000 + 6);
}

TEST_F(WebStoreTest, VerifiesTlsAndFollowsNoRedirectOutOfIt) {
  const fakes::TemporaryFolder folder;
  const fakes::CertificateAuthority authority{"test"};
  const fakes::Certificate certificate = authority.issue("web", "IP:127.0.0.1");
  httplib::SSLServer tls{folder.write("cert.pem", certificate.certificate_pem).c_str(),
                         folder.write("key.pem", certificate.key_pem).c_str()};
  tls.Get("/data/here", [](const httplib::Request&, httplib::Response& response) { response.set_content("x", "a/b"); });
  tls.Get("/data/there", [this](const httplib::Request&, httplib::Response& response) {
    response.set_redirect(server.url() + "/data/labels");
  });
  const std::string origin = fmt::format("https://127.0.0.1:{}", tls.bind_to_any_port("127.0.0.1"));
  const std::jthread thread{[&] { tls.listen_after_bind(); }};
  while (!tls.is_running()) std::this_thread::yield();

  WebStore trusts_nobody = open(origin);
  const auto unknown = get_text(trusts_nobody, "here");
  tuning.http.ca_bundle = folder.write("ca.pem", authority.pem());
  WebStore store = open(origin);
  const auto here = get_text(store, "here");
  const auto there = get_text(store, "there");
  tls.stop();

  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::invalid);
  EXPECT_THAT(unknown.error().message, HasSubstr("AWS_CA_BUNDLE"));
  EXPECT_EQ(here, "x");
  ASSERT_FALSE(there);
  EXPECT_EQ(there.error().kind, ErrorKind::invalid) << there.error().message;
  EXPECT_EQ(server.request_count(), 0);
}

TEST(OpenStore, OpensAWebFolderForReading) {
  const auto store = open_store("https://example.com/data/");
  ASSERT_TRUE(store);
  EXPECT_EQ((*store)->uri_of("a/b"), "https://example.com/data/a/b");
  EXPECT_FALSE((*store)->has_conditional_create());
}

}  // namespace
}  // namespace trainyard::storage
