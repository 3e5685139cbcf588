#include "storage/azure_protocol.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::storage {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

HttpReply azure_refusal(long status, const std::string& code, const std::string& words = "words") {
  return {.status = status,
          .headers = {{"x-ms-error-code", code}},
          .body = fmt::format("<?xml version=\"1.0\"?><Error><Code>{}</Code><Message>{}\nRequestId:1\nTime:2</Message>"
                              "</Error>",
                              code, words)};
}

TEST(AzureError, IsWhatTheCallerCanDo) {
  struct Row {
    long status;
    std::string code;
    ErrorKind kind;
    std::string says;
  };
  const Row rows[] = {
      {404, "BlobNotFound", ErrorKind::not_found, "answered 404 BlobNotFound (words)"},
      {404, "ContainerNotFound", ErrorKind::not_found, "Create the container"},
      {409, "ContainerBeingDeleted", ErrorKind::unavailable, ""},
      {403, "AuthenticationFailed", ErrorKind::unauthorized, "AZURE_STORAGE_ACCOUNT_KEY"},
      {401, "InvalidAuthenticationInfo", ErrorKind::unauthorized, "an identity of Azure's"},
      {403, "AuthorizationPermissionMismatch", ErrorKind::forbidden, "Contributor"},
      {403, "NoAuthenticationInformation", ErrorKind::unauthorized, "an identity of Azure's"},
      {401, "AuthorizationFailure", ErrorKind::forbidden, "Contributor"},
      {401, "AuthorizationResourceTypeMismatch", ErrorKind::forbidden, "Contributor"},
      {401, "AuthorizationServiceMismatch", ErrorKind::forbidden, "Contributor"},
      {401, "InsufficientAccountPermissions", ErrorKind::forbidden, "Contributor"},
      {409, "UnauthorizedBlobOverwrite", ErrorKind::forbidden, "Contributor"},
      {400, "InvalidBlobOrBlock", ErrorKind::gone, ""},
      {400, "InvalidMd5", ErrorKind::corrupt, ""},
      // Both answers to If-None-Match: *.
      {409, "BlobAlreadyExists", ErrorKind::already_exists, ""},
      {412, "ConditionNotMet", ErrorKind::already_exists, ""},
      // Other codes give these HTTP statuses another meaning.
      {412, "LeaseIdMissing", ErrorKind::forbidden, "lease"},
      {409, "BlobImmutableDueToPolicy", ErrorKind::forbidden, "policy"},
      {400, "InvalidBlockList", ErrorKind::gone, ""},
      {416, "InvalidRange", ErrorKind::corrupt, "ends before"},
      {400, "Md5Mismatch", ErrorKind::corrupt, ""},
      {400, "Crc64Mismatch", ErrorKind::corrupt, ""},
      {503, "ServerBusy", ErrorKind::throttled, ""},
      {500, "OperationTimedOut", ErrorKind::timeout, ""},
      {500, "InternalError", ErrorKind::unavailable, ""},
      {429, "SomethingNew", ErrorKind::throttled, ""},
      {400, "SomethingNew", ErrorKind::invalid, ""},
  };
  for (const Row& row : rows) {
    const Error error = azure_error(azure_refusal(row.status, row.code), "get az://c/a", "https://h", {});
    EXPECT_EQ(error.kind, row.kind) << row.code;
    EXPECT_THAT(error.message, AllOf(testing::StartsWith("get az://c/a: https://h answered "), HasSubstr(row.says),
                                     Not(HasSubstr("RequestId")), Not(HasSubstr("\n")),
                                     Not(HasSubstr("without an error code")), Not(testing::EndsWith(". "))));
  }
}

TEST(AzureError, SaysThatAServerIsPerhapsNotAzure) {
  for (const long status : {400, 403, 499}) {
    const Error error = azure_error({.status = status, .headers = {}, .body = "<html>"}, "x", "https://h", {});
    EXPECT_THAT(error.message, HasSubstr("without an error code of Azure's")) << status;
  }
  for (const long status : {404, 412, 500}) {
    EXPECT_THAT(azure_error({.status = status, .headers = {}, .body = ""}, "x", "https://h", {}).message,
                testing::EndsWith(fmt::format("answered {}", status)));
  }
}

TEST(AzureCode, IsReadFromTheHeaderOrTheBody) {
  HttpReply reply = azure_refusal(404, "BlobNotFound");
  EXPECT_EQ(azure_code(reply), "BlobNotFound");
  reply.headers["x-ms-error-code"] = "OfTheHeader";
  EXPECT_EQ(azure_code(reply), "OfTheHeader");
  reply.headers.clear();
  EXPECT_EQ(azure_code(reply), "BlobNotFound");
}

TEST(AzureError, SaysHowLongToWait) {
  HttpReply reply = azure_refusal(503, "ServerBusy");
  reply.headers["retry-after"] = "7";
  EXPECT_EQ(azure_error(reply, "x", "https://h", {}).retry_after, std::chrono::seconds{7});
}

TEST(AzureError, HidesEachSecretBeforeItCutsTheServersText) {
  const std::string words = std::string(295, 'x') + " hush-key";
  const Error error =
      azure_error(azure_refusal(403, "AuthenticationFailed", words), "x", "https://h", {"a", "hush-key"});
  EXPECT_THAT(error.message, Not(HasSubstr("hush")));
}

TEST(AzureError, NeverHoldsASecret) {
  for (const std::string words : {"Signature sig=hush= did not match", "Key hush-key is wrong", "Token hush-key"}) {
    const Error error =
        azure_error(azure_refusal(403, "AuthenticationFailed", words), "x", "https://h", {"", "hush-key"});
    EXPECT_THAT(error.message, Not(HasSubstr("hush"))) << words;
  }
}

}  // namespace
}  // namespace trainyard::storage
