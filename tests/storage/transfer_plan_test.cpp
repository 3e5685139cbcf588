#include "storage/transfer_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "storage/store.hpp"
#include "tests/fakes/certificate_authority.hpp"
#include "tests/fakes/set_variable.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/environment_table.hpp"
#include "tests/storage/loopback_server.hpp"

namespace trainyard::storage {

void PrintTo(const TransferPlan& plan, std::ostream* out) {
  *out << plan.part_bytes << " bytes a part over " << plan.connection_count << " connections";
}

namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
constexpr std::uint64_t gib = std::uint64_t{1} << 30;
constexpr std::uint64_t tib = std::uint64_t{1} << 40;
constexpr TransferLimits azure{.part_bytes_max = 4'000 * mib, .part_count_max = 50'000};

TEST(MakeTransferPlan, FollowsTheNumberOfBytesTheChoiceAndTheLimits) {
  struct Row {
    std::string name;
    std::uint64_t bytes;
    TransferChoice choice;
    TransferLimits limits;
    TransferPlan plan;
  };
  const Row rows[] = {
      {"nothing", 0, {}, {}, {16 * mib, 4}},
      {"one part", 16 * mib, {}, {}, {16 * mib, 4}},
      {"more than one", 16 * mib + 1, {}, {}, {16 * mib, 4}},
      {"the last size for four connections", 320 * mib - 1, {}, {}, {16 * mib, 4}},
      {"the first for five", 320 * mib, {}, {}, {16 * mib, 5}},
      {"the first for the most", gib, {}, {}, {16 * mib, 16}},
      {"the last with the smallest parts", 2 * gib, {}, {}, {16 * mib, 16}},
      {"parts grow", 2 * gib + 1, {}, {}, {16 * mib + 1, 16}},
      {"a large checkpoint", 4 * gib, {}, {}, {32 * mib, 16}},
      {"parts grow no more", 100 * gib, {}, {}, {64 * mib, 16}},
      {"the most bytes in usual parts", 625 * gib, {}, {}, {64 * mib, 16}},
      {"parts that would be too many", 625 * gib + 1, {}, {}, {64 * mib + 1, 16}},
      {"the largest of S3's objects until 2025", 5 * tib, {}, {}, {549'755'814, 16}},
      {"what fits into the largest parts", 50'000 * gib, {}, {}, {5 * gib, 16}},
      {"what fits into none is left to the server", 60'000 * gib, {}, {}, {5 * gib, 16}},
      {"Azure has more parts", 5 * tib, {}, azure, {109'951'163, 16}},
      {"Azure has smaller ones", gib, {.part_bytes = 5 * gib}, azure, {4'000 * mib, 16}},
      {"a size of parts is chosen", gib, {.part_bytes = 5 * mib}, {}, {5 * mib, 16}},
      {"too small a size is chosen", 100 * gib, {.part_bytes = 5 * mib}, {}, {10'737'419, 16}},
      {"connections are chosen", 5 * mib, {.connection_count = 32}, {}, {16 * mib, 32}},
      {"a single connection is chosen", 4 * gib, {.connection_count = 1}, {}, {32 * mib, 1}},
      {"both are chosen", 4 * gib, {128 * mib, 2}, {}, {128 * mib, 2}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(make_transfer_plan(row.bytes, row.choice, row.limits), row.plan) << row.name;
    EXPECT_LE(row.plan.part_bytes, row.limits.part_bytes_max) << row.name;
  }
}

TEST(MakeTransferPlan, KeepsWithinTheServersPartsForEverySize) {
  for (std::uint64_t bytes = 1; bytes <= 48 * tib; bytes = bytes * 3 / 2 + 1) {
    for (const TransferChoice& choice : {TransferChoice{}, TransferChoice{.part_bytes = 5 * mib}}) {
      const TransferPlan plan = make_transfer_plan(bytes, choice);
      EXPECT_GE(plan.part_bytes, 5 * mib) << bytes;
      EXPECT_LE(plan.part_bytes, 5 * gib) << bytes;
      EXPECT_LE((bytes + plan.part_bytes - 1) / plan.part_bytes, 10'000U) << bytes;
      EXPECT_LE(plan.connection_count, 32U) << bytes;
    }
  }
}

TEST(MakeReadPlan, LeavesConnectionsToOtherReadsUnlessTheyAreChosen) {
  EXPECT_EQ(make_read_plan(4 * gib, {}), (TransferPlan{32 * mib, 4}));
  EXPECT_EQ(make_read_plan(4 * gib, {5 * mib, 8}), (TransferPlan{5 * mib, 8}));
}

TEST(ReadTransferChoice, TakesWhatTheEnvironmentSays) {
  const auto read = [](std::map<std::string, std::string> variables) {
    return read_transfer_choice(environment_of(std::move(variables)));
  };
  EXPECT_EQ(read({}), TransferChoice{});
  EXPECT_EQ(read({{"TRAINYARD_STORAGE_PART_MIB", ""}, {"TRAINYARD_STORAGE_CONNECTIONS", ""}}), TransferChoice{});
  EXPECT_EQ(read({{"TRAINYARD_STORAGE_PART_MIB", "5"}, {"TRAINYARD_STORAGE_CONNECTIONS", "1"}}),
            (TransferChoice{5 * mib, 1}));
  EXPECT_EQ(read({{"TRAINYARD_STORAGE_PART_MIB", "5120"}}), (TransferChoice{.part_bytes = 5 * gib}));
  EXPECT_EQ(read({{"TRAINYARD_STORAGE_CONNECTIONS", "32"}}), (TransferChoice{.connection_count = 32}));
}

TEST(ReadTransferChoice, RefusesWhatNoServerTakesAndSaysWhatToWrite) {
  for (const auto& [name, says] : {std::pair{"TRAINYARD_STORAGE_PART_MIB", "from 5 to 5120"},
                                   std::pair{"TRAINYARD_STORAGE_CONNECTIONS", "from 1 to 32"}}) {
    for (const char* text : {"0", "4x", "-1", "many", "5121", "99999999999999999999"}) {
      const auto choice = read_transfer_choice(environment_of({{name, text}}));
      ASSERT_FALSE(choice) << name << " " << text;
      EXPECT_EQ(choice.error().kind, ErrorKind::invalid);
      EXPECT_THAT(choice.error().message, AllOf(HasSubstr(name), HasSubstr(text), HasSubstr(says)));
    }
  }
}

TEST(ReadTransferChoice, RefusesWhatLiesJustBeyondItsBounds) {
  for (const auto& [name, text] :
       {std::pair{"TRAINYARD_STORAGE_PART_MIB", "4"}, std::pair{"TRAINYARD_STORAGE_CONNECTIONS", "33"}}) {
    const auto choice = read_transfer_choice(environment_of({{name, text}}));
    ASSERT_FALSE(choice) << name;
    EXPECT_EQ(choice.error().kind, ErrorKind::invalid);
  }
}

TEST(OpenStore, RefusesAPlaceWhoseTransfersAreSetUpWrongly) {
  const fakes::SetVariable connections{"TRAINYARD_STORAGE_CONNECTIONS", "0"};
  for (const char* uri : {"s3://bucket/run", "gs://bucket/run", "az://container/run", "https://host/run"}) {
    const auto store = open_store(uri);
    ASSERT_FALSE(store) << uri;
    EXPECT_EQ(store.error().kind, ErrorKind::invalid);
    EXPECT_THAT(store.error().message, AllOf(HasSubstr(uri), HasSubstr("TRAINYARD_STORAGE_CONNECTIONS")));
  }
}

TEST(OpenStore, TrustsTheCertificatesThatTheEnvironmentNames) {
  const fakes::TemporaryFolder folder;
  const fakes::CertificateAuthority authority{"test"};
  const fakes::Certificate certificate = authority.issue("server", "IP:127.0.0.1");
  httplib::SSLServer tls{folder.write("cert.pem", certificate.certificate_pem).c_str(),
                         folder.write("key.pem", certificate.key_pem).c_str()};
  tls.Get(".*", [](const httplib::Request&, httplib::Response& response) { response.set_content("x", "text/plain"); });
  const std::string origin = "https://127.0.0.1:" + std::to_string(tls.bind_to_any_port("127.0.0.1"));
  const std::jthread thread{[&] { tls.listen_after_bind(); }};
  while (!tls.is_running()) std::this_thread::yield();

  const fakes::SetVariable bundle{"AWS_CA_BUNDLE", folder.write("ca.pem", authority.pem()).c_str()};
  const fakes::SetVariable no_other_bundle{"SSL_CERT_FILE", ""};
  const fakes::SetVariable id{"AWS_ACCESS_KEY_ID", "id"};
  const fakes::SetVariable secret{"AWS_SECRET_ACCESS_KEY", "secret"};
  const fakes::SetVariable google{"STORAGE_EMULATOR_HOST", origin.c_str()};
  const fakes::SetVariable azure{"AZURE_STORAGE_BLOB_ENDPOINT", (origin + "/acme").c_str()};
  const fakes::SetVariable token{"AZURE_STORAGE_SAS_TOKEN", "sig=x"};
  std::vector<Result<std::string>> texts;
  for (const std::string& uri : {std::string{"s3://bucket/run"}, std::string{"gs://bucket/run"},
                                 std::string{"az://container/run"}, origin + "/run"}) {
    texts.push_back(open_store(uri, {.endpoint = origin}).and_then([](const std::unique_ptr<Store>& store) {
      return get_text(*store, "a");
    }));
  }
  tls.stop();
  for (const auto& text : texts) EXPECT_EQ(text, "x") << text.error().message;
}

TEST(OpenStore, GivesFilesThePermissionsThatTheEnvironmentNames) {
  const fakes::TemporaryFolder folder;
  const fakes::SetVariable mode{"TRAINYARD_FILE_MODE", "0660"};
  const auto store = open_store(folder.uri() + "/run");
  ASSERT_TRUE(store);
  ASSERT_TRUE(put_text(**store, "a", "x"));
  EXPECT_EQ(std::filesystem::status(folder.file("run/a")).permissions(), static_cast<std::filesystem::perms>(0660));
  const fakes::SetVariable wrong{"TRAINYARD_FILE_MODE", "rw"};
  EXPECT_EQ(open_store(folder.uri() + "/run").error().kind, ErrorKind::invalid);
}

TEST(OpenStore, SendsPartsOfTheChosenSize) {
  const fakes::SetVariable id{"AWS_ACCESS_KEY_ID", "id"};
  const fakes::SetVariable secret{"AWS_SECRET_ACCESS_KEY", "secret"};
  const fakes::SetVariable part{"TRAINYARD_STORAGE_PART_MIB", "5"};
  const fakes::SetVariable connections{"TRAINYARD_STORAGE_CONNECTIONS", "1"};
  std::vector<std::size_t> parts;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    if (request.method == "PUT") parts.push_back(request.body.size());
    response.set_header("ETag", "\"e\"");
    response.set_content("<R><UploadId>u</UploadId></R>", "text/xml");
  }};
  const auto store = open_store("s3://bucket/run", {.endpoint = server.url()});
  ASSERT_TRUE(store) << store.error().message;
  const std::vector<std::byte> content(6 * mib);
  const std::span<const std::byte> piece{content};
  const auto put = (*store)->put("large", {&piece, 1});
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(parts, (std::vector<std::size_t>{5 * mib, mib}));
}

}  // namespace
}  // namespace trainyard::storage
