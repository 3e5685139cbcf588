#include "storage/arrow/arrow_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <iterator>

#include "storage/http_status.hpp"
#include "storage/server_words.hpp"

namespace trainyard::storage {
namespace {

struct CodeMeaning {
  std::string_view code;
  ErrorKind kind;
  std::string_view advice;
};

constexpr std::string_view google_begin = "google::cloud::Status(";
constexpr std::string_view azure_begin = "Azure Error: [";

constexpr std::string_view google_access =
    "Allow this account to list the bucket and to get, create and delete objects in it (roles/storage.objectUser)";
constexpr std::string_view google_identity =
    "Set GOOGLE_APPLICATION_CREDENTIALS to a file with credentials, or name a Secret with the key credentials.json in "
    "checkpoint.credentialsSecret, or give the pod a service account of Google's";
constexpr std::string_view azure_access =
    "Allow this identity to list the container and to read, write and delete blobs in it (Storage Blob Data "
    "Contributor)";
constexpr std::string_view azure_identity =
    "Check AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING, and this machine's "
    "clock; without any of them the pod needs an identity of Azure's";

// Google's are gRPC's, https://grpc.io/docs/guides/status-codes/, into which its client turns HTTP's.
constexpr CodeMeaning google_meanings[] = {
    {"NOT_FOUND", ErrorKind::not_found, ""},
    {"PERMISSION_DENIED", ErrorKind::forbidden, google_access},
    {"UNAUTHENTICATED", ErrorKind::unauthorized, google_identity},
    {"RESOURCE_EXHAUSTED", ErrorKind::throttled, ""},
    {"INVALID_ARGUMENT", ErrorKind::invalid, ""},
    {"UNIMPLEMENTED", ErrorKind::invalid, ""},
    {"ALREADY_EXISTS", ErrorKind::already_exists, ""},
    {"OUT_OF_RANGE", ErrorKind::corrupt, ""},
    {"DATA_LOSS", ErrorKind::corrupt, ""},
    {"DEADLINE_EXCEEDED", ErrorKind::timeout, ""},
};

constexpr CodeMeaning azure_meanings[] = {
    {"ContainerNotFound", ErrorKind::not_found, "Create the container, or correct its name in the URI"},
    {"BlobNotFound", ErrorKind::not_found, ""},
    {"AuthenticationFailed", ErrorKind::unauthorized, azure_identity},
    {"InvalidAuthenticationInfo", ErrorKind::unauthorized, azure_identity},
    {"NoAuthenticationInformation", ErrorKind::unauthorized, azure_identity},
    {"AuthorizationFailure", ErrorKind::forbidden, azure_access},
    {"AuthorizationPermissionMismatch", ErrorKind::forbidden, azure_access},
    {"InsufficientAccountPermissions", ErrorKind::forbidden, azure_access},
    {"ServerBusy", ErrorKind::throttled, ""},
    {"OperationTimedOut", ErrorKind::timeout, ""},
    {"InvalidRange", ErrorKind::corrupt, ""},
    {"Md5Mismatch", ErrorKind::corrupt, ""},
    {"Crc64Mismatch", ErrorKind::corrupt, ""},
};

// What is told by words alone. Clients look for identities at addresses that only the cloud's own machines have.
constexpr CodeMeaning phrase_meanings[] = {
    {"automatically determine credentials", ErrorKind::unauthorized, google_identity},
    {"resolve host: metadata.google.internal", ErrorKind::unauthorized, google_identity},
    {"credentials file", ErrorKind::unauthorized, google_identity},
    {"ServiceAccountCredentials", ErrorKind::unauthorized, google_identity},
    {"Application Default Credentials", ErrorKind::unauthorized, google_identity},
    {"GOOGLE_APPLICATION_CREDENTIALS", ErrorKind::unauthorized, google_identity},
    {"DefaultAzureCredential", ErrorKind::unauthorized, azure_identity},
    {"WorkloadIdentityCredential", ErrorKind::unauthorized, azure_identity},
    {"ManagedIdentityCredential", ErrorKind::unauthorized, azure_identity},
    {"Base64", ErrorKind::unauthorized, azure_identity},
};

template <std::size_t count>
const CodeMeaning* meaning_of(const CodeMeaning (&meanings)[count], std::string_view code) {
  const auto* found =
      std::find_if(std::begin(meanings), std::end(meanings), [&](const CodeMeaning& m) { return m.code == code; });
  return found == std::end(meanings) ? nullptr : found;
}

/// What is between `begin` and the next of `ends`; empty when `begin` is not there.
std::string_view after(std::string_view text, std::string_view begin, std::string_view ends) {
  const std::size_t at = text.find(begin);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + begin.size());
  return text.substr(0, text.find_first_of(ends));
}

CodeMeaning meaning_of_azure(std::string_view words) {
  if (const auto* known = meaning_of(azure_meanings, after(words, azure_begin, "]"))) return *known;
  // "] 503 The server is busy."
  std::string_view status_text = after(words, azure_begin, "\n");
  status_text.remove_prefix(std::min(status_text.find(']'), status_text.size()));
  status_text.remove_prefix(std::min<std::size_t>(2, status_text.size()));
  long status = 0;
  std::from_chars(status_text.data(), status_text.data() + status_text.size(), status);
  return {"", status >= 400 ? kind_of_status(status) : ErrorKind::unavailable, ""};
}

CodeMeaning meaning_of_words(std::string_view words, std::optional<int> errno_value) {
  for (const CodeMeaning& phrase : phrase_meanings) {
    if (words.find(phrase.code) != std::string_view::npos) return phrase;
  }
  if (words.find(google_begin) != std::string_view::npos) {
    const auto* known = meaning_of(google_meanings, after(words, google_begin, ":)"));
    return known == nullptr ? CodeMeaning{"", ErrorKind::unavailable, ""} : *known;
  }
  if (words.find(azure_begin) != std::string_view::npos) return meaning_of_azure(words);
  if (errno_value == ENOENT) return {"", ErrorKind::not_found, ""};
  if (errno_value == EISDIR || errno_value == ENOTDIR) return {"", ErrorKind::invalid, ""};
  // Connections that fail have no code.
  return {"", ErrorKind::unavailable, ""};
}

}  // namespace

Error arrow_error(std::string_view doing, const std::string& words, std::optional<int> errno_value,
                  std::string_view secret) {
  const CodeMeaning meaning = meaning_of_words(words, errno_value);
  Error error{meaning.kind, fmt::format("{}: {}", doing, server_words(words, {secret})), {}};
  if (!meaning.advice.empty()) error.message += fmt::format(". {}", meaning.advice);
  return error;
}

}  // namespace trainyard::storage
