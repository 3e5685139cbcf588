#include "worker/launcher/checkpoint_desk.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard::launcher {
namespace {

using nlohmann::json;

constexpr std::string_view bearer = "Bearer 5ecret";

CheckpointDeskSettings desk_settings() {
  return {.token = "5ecret", .is_rank0 = true, .has_checkpoint_uri = true};
}

/// The status and the object of an answer.
std::pair<int, json> post(CheckpointDesk& desk, std::string_view body, std::string_view authorization = bearer) {
  const CheckpointAnswer answer = desk.post(authorization, body);
  return {answer.http_status, json::parse(answer.body)};
}

std::pair<int, json> refusal(int http_status, std::string_view why) {
  return {http_status, json{{"error", why}}};
}

TEST(CheckpointDesk, TakesARequestAndPassesItOnOnce) {
  CheckpointDesk desk{desk_settings()};
  EXPECT_EQ(desk.take_request(), std::nullopt);
  EXPECT_EQ(post(desk, R"({"id": "a", "then": "exit"})"), (std::pair{202, json{{"id", "a"}, {"state", "Pending"}}}));
  EXPECT_EQ(desk.take_request(), (rank::CheckpointRequest{.id = "a", .then = rank::Then::exit}));
  EXPECT_EQ(desk.take_request(), std::nullopt);
}

TEST(CheckpointDesk, AnswersTheSameIdWithItsRecordHoweverOften) {
  CheckpointDesk desk{desk_settings()};
  const std::string body = R"({"id": "a"})";
  EXPECT_EQ(post(desk, body).first, 202);
  const json pending{{"id", "a"}, {"then", "continue"}, {"state", "Pending"}};
  EXPECT_EQ(post(desk, body), (std::pair{200, pending}));
  EXPECT_TRUE(desk.take_request().has_value());
  EXPECT_EQ(post(desk, body), (std::pair{200, pending}));
  EXPECT_EQ(desk.take_request(), std::nullopt) << "it is not asked twice";

  desk.on_report(rank::RequestRecord{
      .request = {.id = "a"}, .state = contract::RequestState::done, .step = 7, .uri = "s3://m/step-7/g-1"});
  desk.close();
  const json done{{"id", "a"}, {"then", "continue"}, {"state", "Done"}, {"step", 7}, {"uri", "s3://m/step-7/g-1"}};
  EXPECT_EQ(post(desk, body), (std::pair{200, done})) << "also after training has ended";
}

TEST(CheckpointDesk, RefusesWithOneSentence) {
  struct Row {
    std::string_view name;
    CheckpointDeskSettings settings;
    std::string_view authorization;
    std::pair<int, json> answer;
  };
  CheckpointDeskSettings without_token = desk_settings(), other_rank = desk_settings(), without_uri = desk_settings();
  without_token.token.reset();
  other_rank.is_rank0 = false;
  without_uri.has_checkpoint_uri = false;
  const auto wrong_token = refusal(401, "the token is wrong or missing: send the header Authorization: Bearer TOKEN");
  const Row rows[] = {
      {"no token in the pod", without_token, bearer,
       refusal(403, "this pod takes no requests for checkpoints: TRAINYARD_REQUEST_TOKEN is not set")},
      {"no token", desk_settings(), "", wrong_token},
      {"another token", desk_settings(), "Bearer 5ecreT", wrong_token},
      {"its beginning", desk_settings(), "Bearer 5ecre", wrong_token},
      {"more than it", desk_settings(), "Bearer 5ecret5", wrong_token},
      {"it twice", desk_settings(), "Bearer 5ecretBearer 5ecret", wrong_token},
      {"another first letter", desk_settings(), "Xearer 5ecret", wrong_token},
      {"another scheme", desk_settings(), "Basic 5ecret", wrong_token},
      {"the token alone", desk_settings(), "5ecret", wrong_token},
      {"another rank", other_rank, bearer,
       refusal(409, "this is not rank 0's pod: rank 0 takes requests for checkpoints")},
      {"no checkpoint URI", without_uri, bearer,
       refusal(409, "the job saves no checkpoints: checkpoint.uri is not set")},
  };
  for (const Row& row : rows) {
    CheckpointDesk desk{row.settings};
    EXPECT_EQ(post(desk, R"({"id": "a"})", row.authorization), row.answer) << row.name;
    EXPECT_EQ(desk.take_request(), std::nullopt) << row.name;
    EXPECT_EQ(desk.record(), std::nullopt) << row.name;
  }
}

TEST(CheckpointDesk, SaysWhatIsWrongWithABody) {
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
    CheckpointDesk desk{desk_settings()};
    EXPECT_EQ(post(desk, body), refusal(400, why)) << body;
    EXPECT_EQ(desk.take_request(), std::nullopt) << body;
  }
}

TEST(CheckpointDesk, TakesEveryIdThatItAllows) {
  for (const std::string& id :
       {std::string{"0"}, std::string{"suspend-4"}, std::string{"A.b_c-9"}, std::string(63, 'z')}) {
    CheckpointDesk desk{desk_settings()};
    EXPECT_EQ(post(desk, json{{"id", id}, {"then", "continue"}, {"more", 1}}.dump()).first, 202) << id;
    EXPECT_EQ(desk.take_request(), (rank::CheckpointRequest{.id = id}));
  }
}

TEST(CheckpointDesk, TakesABodyOfTheGreatestLengthAndNoLongerOne) {
  const std::string body = R"({"id": "a"})";
  for (const auto& [bytes, http_status] : {std::pair{1024U, 202}, std::pair{1025U, 400}}) {
    CheckpointDesk desk{desk_settings()};
    EXPECT_EQ(post(desk, body + std::string(bytes - body.size(), ' ')).first, http_status) << bytes;
  }
}

TEST(CheckpointDesk, ShowsAnErrorThatIsNoUtf8WithAMarkForWhatIsNone) {
  CheckpointDesk desk{desk_settings()};
  EXPECT_EQ(post(desk, R"({"id": "a"})").first, 202);
  desk.on_report(rank::RequestRecord{
      .request = {.id = "a"}, .state = contract::RequestState::failed, .message = "no room for \xff"});
  EXPECT_EQ(post(desk, R"({"id": "a"})").second.at("message"), "no room for \xef\xbf\xbd");
}

TEST(CheckpointDesk, TakesTheNextOneOnlyOnceTheOneBeforeIsAnswered) {
  CheckpointDesk desk{desk_settings()};
  EXPECT_EQ(post(desk, R"({"id": "a"})").first, 202);
  EXPECT_EQ(post(desk, R"({"id": "b"})"),
            (std::pair{409, json{{"error", "the request a is still pending"}, {"id", "a"}}}));
  EXPECT_EQ(desk.take_request(), (rank::CheckpointRequest{.id = "a"}));

  const rank::RequestRecord failed{
      .request = {.id = "a"}, .state = contract::RequestState::failed, .message = "the disk is full"};
  desk.on_report(failed);
  EXPECT_EQ(desk.record(), failed);
  EXPECT_EQ(post(desk, R"({"id": "b"})").first, 202);
  desk.on_report(failed);
  EXPECT_EQ(desk.record(), (rank::RequestRecord{.request = {.id = "b"}})) << "the rank has not answered it yet";
  EXPECT_EQ(desk.take_request(), (rank::CheckpointRequest{.id = "b"}));
}

TEST(CheckpointDesk, LearnsNothingFromAReportWithoutItsRequest) {
  CheckpointDesk desk{desk_settings()};
  const rank::RequestRecord other{.request = {.id = "z"}, .state = contract::RequestState::done, .step = 7};
  desk.on_report(other);
  EXPECT_EQ(desk.record(), std::nullopt) << "it has taken no request";
  EXPECT_EQ(post(desk, R"({"id": "a"})").first, 202);
  desk.on_report(std::nullopt);
  EXPECT_EQ(desk.record(), (rank::RequestRecord{.request = {.id = "a"}})) << "the rank has not heard of it yet";
}

TEST(CheckpointDesk, TakesNothingNewOnceTrainingHasEnded) {
  CheckpointDesk desk{desk_settings()};
  desk.close();
  EXPECT_EQ(post(desk, R"({"id": "a"})"), refusal(409, "training has ended: no further checkpoint is saved"));
}

}  // namespace
}  // namespace trainyard::launcher
