#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "operator/kube/reply.hpp"

namespace trainyard::kube {
namespace {

using std::chrono::seconds;

TEST(ParseObject, LeavesManagedFieldsOut) {
  const std::string meta = R"({"name": "a", "managedFields": [{"manager": "x", "fieldsV1": {"f:a": {}}}], "uid": "u"})";
  const json expected{{"name", "a"}, {"uid", "u"}};
  EXPECT_EQ(parse_object(R"({"metadata": )" + meta + "}"), (json{{"metadata", expected}}));
  EXPECT_EQ(parse_object(R"({"type": "ADDED", "object": {"metadata": )" + meta + "}}"),
            (json{{"type", "ADDED"}, {"object", {{"metadata", expected}}}}));
  EXPECT_EQ(parse_object(R"({"items": [{"metadata": )" + meta + R"(}, {"metadata": )" + meta + "}]}"),
            (json{{"items", json::array({{{"metadata", expected}}, {{"metadata", expected}}})}}));
}

TEST(ParseObject, KeepsWhatOnlyHasThatName) {
  const json deep =
      json::parse(R"({"spec": {"template": {"spec": {"x": {"managedFields": 1}}}}, "y": "managedFields"})");
  EXPECT_EQ(parse_object(deep.dump()), deep);
}

TEST(ParseObject, DiscardsWhatIsNoJson) {
  for (const char* text : {"", "{", R"({"metadata": {"managedFields": [})", "no"}) {
    EXPECT_TRUE(parse_object(text).is_discarded()) << text;
  }
}

std::string status(int code, const char* reason, const char* message) {
  return nlohmann::json{{"kind", "Status"}, {"code", code}, {"reason", reason}, {"message", message}}.dump();
}

TEST(ErrorOfReply, HasTheKindThatSaysWhatTheCallerCanDo) {
  struct Row {
    int http_status;
    const char* reason;
    ErrorKind kind;
  };
  for (const Row& row :
       {Row{400, "BadRequest", ErrorKind::invalid}, Row{401, "Unauthorized", ErrorKind::unauthorized},
        Row{403, "Forbidden", ErrorKind::forbidden}, Row{404, "NotFound", ErrorKind::not_found},
        Row{409, "AlreadyExists", ErrorKind::already_exists}, Row{409, "Conflict", ErrorKind::conflict},
        Row{410, "Gone", ErrorKind::gone}, Row{410, "Expired", ErrorKind::gone},
        Row{422, "Invalid", ErrorKind::invalid}, Row{429, "TooManyRequests", ErrorKind::throttled},
        Row{500, "InternalError", ErrorKind::unavailable}, Row{503, "ServiceUnavailable", ErrorKind::unavailable},
        Row{504, "Timeout", ErrorKind::timeout}, Row{400, "Expired", ErrorKind::gone},
        Row{409, "", ErrorKind::conflict}, Row{404, "AlreadyExists", ErrorKind::not_found},
        Row{302, "Found", ErrorKind::internal}}) {
    const Error error = error_of_reply("create pods a/b", row.http_status, status(row.http_status, row.reason, "no"));
    EXPECT_EQ(error.kind, row.kind) << row.http_status << " " << row.reason;
  }
}

TEST(ErrorOfReply, DistinguishesARefusalByAdmissionFromAWrongObject) {
  const std::vector<std::pair<int, const char*>> denials{
      {400, R"(admission webhook "policy.example.com" denied the request: no team label)"},
      {400, R"(admission webhook "policy.example.com" denied the request without explanation)"},
      {422,
       "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'limits' with binding 'all' denied request: too many GPUs"}};
  for (const auto& [http_status, message] : denials) {
    EXPECT_EQ(error_of_reply("create pods a/b", http_status, status(http_status, "", message)).kind,
              ErrorKind::forbidden)
        << message;
  }
  const std::string wrong_object =
      R"(pods "a" is invalid: metadata.annotations: "admission webhook x" denied by nobody)";
  for (const char* message : {"spec.containers: Required value", wrong_object.c_str(), "the proxy denied the request",
                              "ValidatingAdmissionPolicy 'limits': wrong", "the filter denied request 7"}) {
    EXPECT_EQ(error_of_reply("create pods a/b", 422, status(422, "Invalid", message)).kind, ErrorKind::invalid)
        << message;
  }
  const char* denial = denials.front().second;
  EXPECT_EQ(error_of_reply("create pods a/b", 500, status(500, "InternalError", denial)).kind, ErrorKind::unavailable)
      << "the server's own failure may pass";
}

TEST(ErrorOfReply, HasTheServersMessageAfterTheFailedCall) {
  EXPECT_EQ(error_of_reply("create pods a/b", 403, status(403, "Forbidden", "exceeded quota: team")).message,
            "create pods a/b: exceeded quota: team (HTTP 403 Forbidden)");
  EXPECT_EQ(error_of_reply("get pods a/b", 502, "Bad Gateway\n").message, "get pods a/b: HTTP 502: Bad Gateway");
  EXPECT_EQ(error_of_reply("get pods a/b", 503, "").message, "get pods a/b: HTTP 503");
  EXPECT_EQ(error_of_reply("get pods a/b", 404, R"({"kind":"Status","code":200})").message,
            "get pods a/b: the server gave no reason (HTTP 404)");
  EXPECT_LT(error_of_reply("get pods a/b", 502, std::string(100'000, 'x')).message.size(), 300U);
}

TEST(ErrorOfReply, KeepsHowLongToWait) {
  auto refusal = nlohmann::json::parse(status(429, "TooManyRequests", "slow down"));
  EXPECT_EQ(error_of_reply("", 429, refusal.dump()).retry_after, std::nullopt);
  for (const int count : {0, -1}) {
    refusal["details"]["retryAfterSeconds"] = count;
    EXPECT_EQ(error_of_reply("", 429, refusal.dump()).retry_after, std::nullopt) << count;
  }
  EXPECT_EQ(error_of_reply("", 503, "Service Unavailable", seconds{7}).retry_after, seconds{7})
      << "the header of a proxy, which sends no Status";
  refusal["details"]["retryAfterSeconds"] = 3;
  EXPECT_EQ(error_of_reply("", 429, refusal.dump()).retry_after, seconds{3});
  EXPECT_EQ(error_of_reply("", 429, refusal.dump(), seconds{7}).retry_after, seconds{7})
      << "the header is the nearer word";
  for (const std::int64_t count : {std::int64_t{3'600}, std::int64_t{9'000'000'000'000'000'000}}) {
    refusal["details"]["retryAfterSeconds"] = count;
    EXPECT_EQ(error_of_reply("", 429, refusal.dump()).retry_after, retry_after_max) << count;
  }
}

TEST(ErrorOfReply, ForgivesAStatusOfAnyShape) {
  for (const char* body :
       {"{", "[]", "null", R"({"kind":"Status"})", R"({"kind":"Status","details":3,"reason":4,"message":[]})",
        R"({"kind":"Status","details":{"retryAfterSeconds":"x"}})"}) {
    EXPECT_EQ(error_of_reply("get", 500, body).kind, ErrorKind::unavailable) << body;
  }
}

}  // namespace
}  // namespace trainyard::kube
