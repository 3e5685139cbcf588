#include "worker/launcher/checkpoint_endpoint.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard::launcher {
namespace {

using nlohmann::json;

constexpr std::string_view bearer = "Bearer 5ecret";

CheckpointEndpointSettings endpoint_settings() {
  return {.token = "5ecret", .is_rank0 = true, .has_checkpoint_uri = true};
}

/// The status and the object of an answer.
std::pair<int, json> post(CheckpointEndpoint& endpoint, std::string_view body,
                          std::string_view authorization = bearer) {
  const CheckpointAnswer answer = endpoint.post(authorization, body);
  return {answer.http_status, json::parse(answer.body)};
}

std::pair<int, json> refusal(int http_status, std::string_view why) {
  return {http_status, json{{"error", why}}};
}

TEST(CheckpointEndpoint, TakesARequestAndPassesItOnOnce) {
  CheckpointEndpoint endpoint{endpoint_settings()};
  EXPECT_EQ(endpoint.take_request(), std::nullopt);
  EXPECT_EQ(post(endpoint, R"({"id": "a", "then": "exit"})"),
            (std::pair{202, json{{"id", "a"}, {"state", "Pending"}}}));
  EXPECT_EQ(endpoint.take_request(), (rank::CheckpointRequest{.id = "a", .then = rank::Then::exit}));
  EXPECT_EQ(endpoint.take_request(), std::nullopt);
}

TEST(CheckpointEndpoint, AnswersTheSameIdWithItsRecordHoweverOften) {
  CheckpointEndpoint endpoint{endpoint_settings()};
  const std::string body = R"({"id": "a"})";
  EXPECT_EQ(post(endpoint, body).first, 202);
  const json pending{{"id", "a"}, {"then", "continue"}, {"state", "Pending"}};
  EXPECT_EQ(post(endpoint, body), (std::pair{200, pending}));
  EXPECT_TRUE(endpoint.take_request().has_value());
  EXPECT_EQ(post(endpoint, body), (std::pair{200, pending}));
  EXPECT_EQ(endpoint.take_request(), std::nullopt) << "it is not asked twice";

  endpoint.on_report(rank::RequestRecord{
      .request = {.id = "a"}, .state = contract::RequestState::done, .step = 7, .uri = "s3://m/step-7/g-1"});
  endpoint.close();
  const json done{{"id", "a"}, {"then", "continue"}, {"state", "Done"}, {"step", 7}, {"uri", "s3://m/step-7/g-1"}};
  EXPECT_EQ(post(endpoint, body), (std::pair{200, done})) << "also after training has ended";
}

TEST(CheckpointEndpoint, RefusesWithOneSentence) {
  struct Row {
    std::string_view name;
    CheckpointEndpointSettings settings;
    std::string_view authorization;
    std::pair<int, json> answer;
  };
  CheckpointEndpointSettings without_token = endpoint_settings(), other_rank = endpoint_settings(),
                             without_uri = endpoint_settings();
  without_token.token.reset();
  other_rank.is_rank0 = false;
  without_uri.has_checkpoint_uri = false;
  const auto wrong_token = refusal(401, "the token is wrong or missing: send the header Authorization: Bearer TOKEN");
  const Row rows[] = {
      {"no token in the pod", without_token, bearer,
       refusal(403, "this pod takes no requests for checkpoints: TRAINYARD_REQUEST_TOKEN is not set")},
      {"no token", endpoint_settings(), "", wrong_token},
      {"another token", endpoint_settings(), "Bearer 5ecreT", wrong_token},
      {"its beginning", endpoint_settings(), "Bearer 5ecre", wrong_token},
      {"more than it", endpoint_settings(), "Bearer 5ecret5", wrong_token},
      {"it twice", endpoint_settings(), "Bearer 5ecretBearer 5ecret", wrong_token},
      {"another first letter", endpoint_settings(), "Xearer 5ecret", wrong_token},
      {"another scheme", endpoint_settings(), "Basic 5ecret", wrong_token},
      {"the token alone", endpoint_settings(), "5ecret", wrong_token},
      {"another rank", other_rank, bearer,
       refusal(409, "this is not rank 0's pod: rank 0 takes requests for checkpoints")},
      {"no checkpoint URI", without_uri, bearer,
       refusal(409, "the job saves no checkpoints: checkpoint.uri is not set")},
  };
  for (const Row& row : rows) {
    CheckpointEndpoint endpoint{row.settings};
    EXPECT_EQ(post(endpoint, R"({"id": "a"})", row.authorization), row.answer) << row.name;
    EXPECT_EQ(endpoint.take_request(), std::nullopt) << row.name;
    EXPECT_EQ(endpoint.record(), std::nullopt) << row.name;
  }
}

TEST(CheckpointEndpoint, SaysWhatIsWrongWithABody) {
  const std::string no_object = R"(the body is not a JSON object like {"id": "...", "then": "continue"})";
  const std::string wrong_id = "id is not a string that matches [A-Za-z0-9._-]{1,63}";
  const std::string wrong_then = R"(then is neither "continue" nor "exit")";
  const std::pair<std::string, std::string> rows[] = {
      {"", no_object},
      {"id=a", no_object},
      {"[]", no_object},
      {R"({"id": "a"} and more)", no_object},
      {"{}", wrong_id},
      {R"({"id": 7})", wrong_id},
      {R"({"id": ""})", wrong_id},
      {R"({"id": "a b"})", wrong_id},
      {R"({"id": "ä"})", wrong_id},
      {R"({"id": "a\u0000"})", wrong_id},
      {R"({"id": ")" + std::string(64, 'a') + R"("})", wrong_id},
      {R"({"id": "a", "then": "stop"})", wrong_then},
      {R"({"id": "a", "then": null})", wrong_then},
      {R"({"id": "a"})" + std::string(1024, ' '), "the body is longer than 1024 bytes"},
  };
  for (const auto& [body, why] : rows) {
    CheckpointEndpoint endpoint{endpoint_settings()};
    EXPECT_EQ(post(endpoint, body), refusal(400, why)) << body;
    EXPECT_EQ(endpoint.take_request(), std::nullopt) << body;
  }
}

TEST(CheckpointEndpoint, TakesEveryIdThatItAllows) {
  for (const std::string& id :
       {std::string{"0"}, std::string{"suspend-4"}, std::string{"A.b_c-9"}, std::string(63, 'z')}) {
    CheckpointEndpoint endpoint{endpoint_settings()};
    EXPECT_EQ(post(endpoint, json{{"id", id}, {"then", "continue"}, {"more", 1}}.dump()).first, 202) << id;
    EXPECT_EQ(endpoint.take_request(), (rank::CheckpointRequest{.id = id}));
  }
}

TEST(CheckpointEndpoint, TakesABodyOfTheGreatestLengthAndNoLongerOne) {
  const std::string body = R"({"id": "a"})";
  for (const auto& [bytes, http_status] : {std::pair{1024U, 202}, std::pair{1025U, 400}}) {
    CheckpointEndpoint endpoint{endpoint_settings()};
    EXPECT_EQ(post(endpoint, body + std::string(bytes - body.size(), ' ')).first, http_status) << bytes;
  }
}

TEST(CheckpointEndpoint, ShowsAnErrorThatIsNoUtf8WithAMarkForWhatIsNone) {
  CheckpointEndpoint endpoint{endpoint_settings()};
  EXPECT_EQ(post(endpoint, R"({"id": "a"})").first, 202);
  endpoint.on_report(rank::RequestRecord{
      .request = {.id = "a"}, .state = contract::RequestState::failed, .message = "no room for \xff"});
  EXPECT_EQ(post(endpoint, R"({"id": "a"})").second.at("message"), "no room for \xef\xbf\xbd");
}

TEST(CheckpointEndpoint, TakesTheNextOneOnlyOnceTheOneBeforeIsAnswered) {
  CheckpointEndpoint endpoint{endpoint_settings()};
  EXPECT_EQ(post(endpoint, R"({"id": "a"})").first, 202);
  EXPECT_EQ(post(endpoint, R"({"id": "b"})"),
            (std::pair{409, json{{"error", "the request a is still pending"}, {"id", "a"}}}));
  EXPECT_EQ(endpoint.take_request(), (rank::CheckpointRequest{.id = "a"}));

  const rank::RequestRecord failed{
      .request = {.id = "a"}, .state = contract::RequestState::failed, .message = "the disk is full"};
  endpoint.on_report(failed);
  EXPECT_EQ(endpoint.record(), failed);
  EXPECT_EQ(post(endpoint, R"({"id": "b"})").first, 202);
  endpoint.on_report(failed);
  EXPECT_EQ(endpoint.record(), (rank::RequestRecord{.request = {.id = "b"}})) << "the rank has not answered it yet";
  EXPECT_EQ(endpoint.take_request(), (rank::CheckpointRequest{.id = "b"}));
}

TEST(CheckpointEndpoint, LearnsNothingFromAReportWithoutItsRequest) {
  CheckpointEndpoint endpoint{endpoint_settings()};
  const rank::RequestRecord other{.request = {.id = "z"}, .state = contract::RequestState::done, .step = 7};
  endpoint.on_report(other);
  EXPECT_EQ(endpoint.record(), std::nullopt) << "it has taken no request";
  EXPECT_EQ(post(endpoint, R"({"id": "a"})").first, 202);
  endpoint.on_report(std::nullopt);
  EXPECT_EQ(endpoint.record(), (rank::RequestRecord{.request = {.id = "a"}})) << "the rank has not heard of it yet";
}

TEST(CheckpointEndpoint, TakesNothingNewOnceTrainingHasEnded) {
  CheckpointEndpoint endpoint{endpoint_settings()};
  endpoint.close();
  EXPECT_EQ(post(endpoint, R"({"id": "a"})"), refusal(409, "training has ended: no further checkpoint is saved"));
}

}  // namespace
}  // namespace trainyard::launcher
