#include "storage/azure_protocol.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "common/check.hpp"
#include "common/text.hpp"
#include "storage/server_error.hpp"
#include "storage/xml.hpp"

namespace trainyard::storage {
namespace {

constexpr std::string_view azure_access =
    "Allow this identity to list the container and to read, write and delete blobs in it (Storage Blob Data "
    "Contributor)";
constexpr std::string_view azure_identity =
    "Check AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING, and this machine's "
    "clock; without any of them the pod needs an identity of Azure's";

// Source: https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes. Other codes are judged by the
// status.
constexpr ServerMeaning azure_meanings[] = {
    {"ContainerNotFound", ErrorKind::not_found, "Create the container, or correct its name in the URI"},
    {"BlobNotFound", ErrorKind::not_found, ""},
    {"ContainerBeingDeleted", ErrorKind::unavailable, ""},
    {"AuthenticationFailed", ErrorKind::unauthorized, azure_identity},
    {"InvalidAuthenticationInfo", ErrorKind::unauthorized, azure_identity},
    {"NoAuthenticationInformation", ErrorKind::unauthorized, azure_identity},
    {"AuthorizationFailure", ErrorKind::forbidden, azure_access},
    {"AuthorizationPermissionMismatch", ErrorKind::forbidden, azure_access},
    {"AuthorizationResourceTypeMismatch", ErrorKind::forbidden, azure_access},
    {"AuthorizationServiceMismatch", ErrorKind::forbidden, azure_access},
    {"InsufficientAccountPermissions", ErrorKind::forbidden, azure_access},
    {"UnauthorizedBlobOverwrite", ErrorKind::forbidden, azure_access},
    {"BlobAlreadyExists", ErrorKind::already_exists, ""},
    {"ConditionNotMet", ErrorKind::already_exists, ""},
    // The status of these two is 412 or 409 as well, but they do not say that the blob exists.
    {"LeaseIdMissing", ErrorKind::forbidden, "Break the lease that somebody holds on it"},
    {"BlobImmutableDueToPolicy", ErrorKind::forbidden, "The container's immutability policy forbids it"},
    // The blocks of an upload are dropped when somebody else writes the blob.
    {"InvalidBlockList", ErrorKind::gone, ""},
    {"InvalidBlobOrBlock", ErrorKind::gone, ""},
    {"ServerBusy", ErrorKind::throttled, ""},
    {"OperationTimedOut", ErrorKind::timeout, ""},
    {"InvalidRange", ErrorKind::corrupt, "The object ends before the bytes that were asked for"},
    {"Md5Mismatch", ErrorKind::corrupt, ""},
    {"Crc64Mismatch", ErrorKind::corrupt, ""},
    {"InvalidMd5", ErrorKind::corrupt, ""},
};

}  // namespace

std::string azure_code(const HttpReply& reply) {
  const std::string code = reply.header("x-ms-error-code");
  return code.empty() ? xml::text_of(reply.body, "Code") : code;
}

Error azure_error(const HttpReply& reply, std::string_view doing, std::string_view endpoint,
                  const std::vector<std::string>& secrets) {
  const std::string code = azure_code(reply);
  const ServerMeaning* meaning = find_meaning(azure_meanings, code);
  Error error{meaning != nullptr ? meaning->kind : kind_of_status(reply.status),
              fmt::format("{}: {} answered {}", doing, endpoint, reply.status), retry_after_of(reply)};
  if (!code.empty()) error.message += fmt::format(" {}", sanitize_server_text(code, secrets));
  // The message ends with two lines, the request's id and the time, which are removed.
  const std::string words = xml::text_of(reply.body, "Message");
  if (!words.empty())
    error.message += fmt::format(" ({})", sanitize_server_text(words.substr(0, words.find('\n')), secrets));
  const bool has_words = !code.empty() || reply.status == 404 || reply.status == 412;
  if (!has_words && reply.status >= 400 && reply.status < 500)
    error.message += " without an error code of Azure's. Check that the endpoint is Azure Blob Storage";
  if (meaning != nullptr && !meaning->advice.empty()) error.message += fmt::format(". {}", meaning->advice);
  return error;
}

std::string azure_string_to_sign(const AzureSignedParts& request, std::string_view account) {
  const auto header = [&](const char* name) {
    const auto found = request.headers.find(name);
    return found == request.headers.end() ? std::string{} : found->second;
  };
  std::string text = fmt::format("{}\n", request.method);
  for (const char* name : {"content-encoding", "content-language"}) text += fmt::format("{}\n", header(name));
  text += request.body_bytes == 0 ? "\n" : fmt::format("{}\n", request.body_bytes);
  text += fmt::format("{}\n{}\n", header("content-md5"), header("content-type"));
  text += "\n";  // The date, which is signed as x-ms-date.
  for (const char* name : {"if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"}) {
    text += fmt::format("{}\n", header(name));
  }
  for (const auto& [name, value] : request.headers) {
    if (name.starts_with("x-ms-")) text += fmt::format("{}:{}\n", name, value);
  }
  text += fmt::format("/{}{}", account, request.path);
  auto query = request.query;
  std::sort(query.begin(), query.end());
  for (const auto& [name, value] : query) text += fmt::format("\n{}:{}", name, value);
  return text;
}

std::string azure_authorization(const AzureSignedParts& request, std::string_view account, std::string_view key) {
  const std::string text = azure_string_to_sign(request, account);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int digest_bytes = 0;
  const auto* done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
           text.size(), digest.data(), &digest_bytes);
  check(done != nullptr, "OpenSSL computes an HMAC");
  return fmt::format("SharedKey {}:{}", account,
                     encode_base64({reinterpret_cast<const char*>(digest.data()), digest_bytes}));
}

std::string azure_date(Time time) {
  return fmt::format("{:%a, %d %b %Y %H:%M:%S GMT}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

}  // namespace trainyard::storage
