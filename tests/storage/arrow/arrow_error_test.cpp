#include "storage/arrow/arrow_error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace trainyard::storage {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ArrowError, IsWhatTheCloudSaid) {
  struct Row {
    std::string words;
    std::optional<int> errno_value;
    ErrorKind kind;
    std::string says;
  };
  const Row rows[] = {
      {"google::cloud::Status(NOT_FOUND: The specified bucket does not exist.)", {}, ErrorKind::not_found, "bucket"},
      {"google::cloud::Status(PERMISSION_DENIED: me does not have storage.objects.list access)",
       {},
       ErrorKind::forbidden,
       "roles/storage.objectUser"},
      {"google::cloud::Status(UNAUTHENTICATED: Invalid Credentials)",
       {},
       ErrorKind::unauthorized,
       "GOOGLE_APPLICATION_CREDENTIALS"},
      {"google::cloud::Status(UNAVAILABLE: Retry policy exhausted)", {}, ErrorKind::unavailable, "exhausted"},
      {"google::cloud::Status(DEADLINE_EXCEEDED: x)", {}, ErrorKind::timeout, ""},
      {"google::cloud::Status(DATA_LOSS: mismatched hashes)", {}, ErrorKind::corrupt, ""},
      {"google::cloud::Status(INTERNAL: x)", {}, ErrorKind::unavailable, ""},
      {"google::cloud::Status(UNKNOWN: Could not automatically determine credentials. For more information)",
       {},
       ErrorKind::unauthorized,
       "credentials.json"},
      {"google::cloud::Status(UNAVAILABLE: Could not resolve host: metadata.google.internal)",
       {},
       ErrorKind::unauthorized,
       "credentials.json"},
      {"GetProperties failed for 'http://h/a'. Azure Error: [BlobNotFound] 404 The specified blob does not exist.",
       {},
       ErrorKind::not_found,
       ""},
      {"x Azure Error: [ContainerNotFound] 404 y", {}, ErrorKind::not_found, "Create the container"},
      {"x Azure Error: [AuthenticationFailed] 403 Server failed to authenticate the request.",
       {},
       ErrorKind::unauthorized,
       "AZURE_STORAGE_ACCOUNT_KEY"},
      {"x Azure Error: [AuthorizationPermissionMismatch] 403 y", {}, ErrorKind::forbidden, "Contributor"},
      {"x Azure Error: [ServerBusy] 503 y", {}, ErrorKind::throttled, ""},
      {"x Azure Error: [] 404 The specified resource", {}, ErrorKind::not_found, ""},
      {"x Azure Error: [SomethingNew] 429 Slow", {}, ErrorKind::throttled, ""},
      {"x Azure Error: [SomethingNew] 502 Bad gateway", {}, ErrorKind::unavailable, ""},
      {"x Azure Error: [] Fail to get a new connection for: http://h. Could not connect",
       {},
       ErrorKind::unavailable,
       ""},
      {"Failed to get token from DefaultAzureCredential.\nSee the log", {}, ErrorKind::unauthorized, "identity"},
      {"Path does not exist 'bucket/a'", ENOENT, ErrorKind::not_found, ""},
      {"Not a regular file: 'bucket/a'", EISDIR, ErrorKind::invalid, ""},
      {"Couldn't connect to server", {}, ErrorKind::unavailable, ""},
  };
  for (const Row& row : rows) {
    const Error error = arrow_error("get gs://b/a", row.words, row.errno_value, "");
    EXPECT_EQ(error.kind, row.kind) << row.words;
    EXPECT_THAT(error.message, testing::StartsWith("get gs://b/a: ")) << row.words;
    EXPECT_THAT(error.message, HasSubstr(row.says)) << row.words;
    EXPECT_THAT(error.message, Not(HasSubstr("\n"))) << row.words;
  }
}

TEST(ArrowError, NeverHoldsTheSecret) {
  const std::string rows[] = {
      "GetProperties failed for 'https://h/a?sv=2021&sig=hush%3D'.",
      "GetProperties failed for 'https://h/a?comp=list&sig=hush%3D&sv=2021'.",
      "Signature sig=hush= did not match, nor did sig=hush",
      "Key hush-key is wrong",
  };
  for (const std::string& words : rows) {
    EXPECT_THAT(arrow_error("get az://b/a", words, {}, "hush-key").message, Not(HasSubstr("hush"))) << words;
  }
}

}  // namespace
}  // namespace trainyard::storage
