// A secret shows nowhere, whatever a server says: in no log line, no error, no status.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/contract.hpp"
#include "common/logging.hpp"
#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/fault_proxy.hpp"
#include "tests/storage/s3_fixture.hpp"
#include "worker/rank/end_report.hpp"
#include "worker/rank/rank_message.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string secret = "a-secret/with+signs=";
const std::string token = "a-session-token/with+signs==";

/// A server whose replies repeat the request and contain secrets.
class ATalkativeServer : public storage::S3Fixture {
 protected:
  void SetUp() override {
    storage::S3Fixture::SetUp();
    tuning.http.patience = tuning.http.first_patience = std::chrono::milliseconds{50};
    logging::set_up(logging::Format::json, logging::Level::debug);
    testing::internal::CaptureStderr();
  }
  void TearDown() override {
    said_ += testing::internal::GetCapturedStderr();
    logging::set_up(logging::Format::text, logging::Level::info);
    for (const std::string& hidden : hidden_) EXPECT_THAT(said_, Not(HasSubstr(hidden)));
  }

  // Its refusal, with everything in it.
  fakes::Fault refuse(const fakes::ProxiedRequest& request, int status, const std::string& code,
                      const std::string& headers = "") {
    const std::string authorization = header_of(request, "authorization: ");
    const std::string signature = authorization.substr(authorization.find("Signature=") + 10);
    hidden_.insert(hidden_.end(), {authorization, signature});
    const std::string words = fmt::format("{} {} {}", used_.secret_access_key, used_.session_token, authorization);
    return {fakes::Fault::Kind::reply,
            fakes::http_reply(status, headers,
                              fmt::format("<Error><Code>{}</Code><Message>{}</Message><StringToSign>{}</StringToSign>"
                                          "<Region>{}</Region></Error>",
                                          code, words, words, used_.secret_access_key)),
            0};
  }

  std::unique_ptr<TestRun> run_at(std::uint16_t port, const storage::Credentials& credentials) {
    used_ = credentials;
    storage::S3Config config = config_at(port);
    config.credentials = storage::given_credentials(credentials);
    auto run = std::make_unique<TestRun>(std::make_unique<storage::S3Store>(config, tuning));
    run->large_rows = 1;
    return run;
  }

  // Adds every text that a rank makes of an error.
  void note(const Error& error) {
    said_ += error.message + "\n";
    said_ += rank::to_json({.phase = "Training", .checkpoint_error = error.message}).dump() + "\n";
    const rank::RankEnd end{
        .exit_code = contract::exit_storage, .reason = "StorageFailed", .message = error.message, .culprit = {}};
    said_ += rank::make_termination_message(end, 0, std::nullopt) + "\n";
  }

  storage::Credentials used_;
  std::string said_;
  std::vector<std::string> hidden_ = {secret, token, storage::Versitygw::secret_access_key};

 private:
  static std::string header_of(const fakes::ProxiedRequest& request, const std::string& name) {
    const std::size_t at = request.head.find(name);
    if (at == std::string::npos) return "none";
    const std::size_t begin = at + name.size();
    return request.head.substr(begin, request.head.find("\r\n", begin) - begin);
  }
};

TEST_F(ATalkativeServer, IsNotRepeatedWhenARunBegins) {
  struct Row {
    int status;
    std::string code;
  };
  const Row rows[] = {
      {403, "SignatureDoesNotMatch"}, {400, "ExpiredToken"},      {403, "InvalidToken"},
      {403, "AccessDenied"},          {301, "PermanentRedirect"}, {400, "AuthorizationHeaderMalformed"},
      {500, "InternalError"},         {503, "SlowDown"},          {418, secret}};  // A code of no meaning.
  for (const Row& row : rows) {
    fakes::FaultProxy proxy{
        server().port(), [&](const fakes::ProxiedRequest& request) { return refuse(request, row.status, row.code); }};
    const auto restored = run_at(proxy.port(), {"key", secret, token})->restore();
    ASSERT_FALSE(restored);
    EXPECT_THAT(restored.error().message, HasSubstr("(*** *** AWS4-HMAC-SHA256"));
    EXPECT_THAT(restored.error().message, HasSubstr("Signature=***"));
    note(restored.error());
  }
}

TEST_F(ATalkativeServer, IsNotFollowedElsewhere) {
  fakes::FaultProxy elsewhere{server().port(), [](const fakes::ProxiedRequest&) { return fakes::Fault{}; }};
  for (const int status : {301, 302, 307, 308}) {
    fakes::FaultProxy proxy{server().port(), [&](const fakes::ProxiedRequest& request) {
                              return refuse(
                                  request, status, "TemporaryRedirect",
                                  fmt::format("Location: http://127.0.0.1:{}/?token={}\r\n", elsewhere.port(), token));
                            }};
    const auto restored = run_at(proxy.port(), {"key", secret, token})->restore();
    ASSERT_FALSE(restored);
    note(restored.error());
  }
  EXPECT_EQ(elsewhere.request_count(), 0);
}

TEST_F(ATalkativeServer, IsNotRepeatedWhenTheKeyIsWrong) {
  const auto restored = run_at(server().port(), {storage::Versitygw::access_key_id, secret, ""})->restore();
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().kind, ErrorKind::unauthorized);
  note(restored.error());
}

TEST_F(ATalkativeServer, IsNotRepeatedWhileARunSaves) {
  bool is_hostile = false;
  fakes::FaultProxy proxy{server().port(), [&](const fakes::ProxiedRequest& request) {
                            const bool lists_uploads = request.target.find("uploads") != std::string::npos;
                            const bool is_write = request.method == "PUT" || request.method == "DELETE";
                            if (lists_uploads || (is_hostile && is_write)) return refuse(request, 403, "AccessDenied");
                            return fakes::Fault{};
                          }};
  const auto run = run_at(proxy.port(), {storage::Versitygw::access_key_id, storage::Versitygw::secret_access_key, ""});
  ASSERT_TRUE(run->restore());
  ASSERT_TRUE(run->save(10)) << "what was left unfinished is not listed, which the log says";
  is_hostile = true;
  const auto failed = run->save(20);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("Signature=***"));
  note(failed.error());
}

}  // namespace
}  // namespace trainyard::checkpoint
