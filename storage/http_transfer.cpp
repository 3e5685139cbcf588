#include "storage/http_transfer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/text.hpp"
#include "storage/http_client.hpp"

namespace trainyard::storage {
namespace {

constexpr std::size_t reply_bytes_max = std::size_t{1} << 30;  // Limit of a reply whose body is kept in HttpReply.
constexpr std::size_t refusal_bytes_max = std::size_t{256} << 10;
constexpr long slow_bytes_per_second = 1024;
constexpr long buffer_bytes = 512L << 10;
constexpr long redirects_max = 5;

std::string_view advice_for(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return ". Check the endpoint's name; an S3 server that knows no bucket names in front of it wants path style";
    case CURLE_COULDNT_CONNECT:
      return ". Check the endpoint's address and port, and that the server runs";
    case CURLE_PEER_FAILED_VERIFICATION:
      return ". Name the file of the server's certificate authority in AWS_CA_BUNDLE";
    case CURLE_SSL_CACERT_BADFILE:
      return ". Check the file that AWS_CA_BUNDLE names";
    default:
      return "";
  }
}

}  // namespace

ErrorKind kind_of_transfer(CURLcode code) {
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return ErrorKind::timeout;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CRL_BADFILE:
    case CURLE_SSL_INVALIDCERTSTATUS:
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
    case CURLE_INTERFACE_FAILED:
      return ErrorKind::invalid;
    // Misuse of libcurl, or a libcurl without a feature: the same call fails again.
    case CURLE_FAILED_INIT:
    case CURLE_NOT_BUILT_IN:
    case CURLE_FUNCTION_NOT_FOUND:
    case CURLE_BAD_FUNCTION_ARGUMENT:
    case CURLE_UNKNOWN_OPTION:
    case CURLE_SSL_ENGINE_NOTFOUND:
    case CURLE_SSL_ENGINE_SETFAILED:
    case CURLE_SSL_ENGINE_INITFAILED:
    case CURLE_RECURSIVE_API_CALL:
    case CURLE_ABORTED_BY_CALLBACK:
    case CURLE_READ_ERROR:
    case CURLE_WRITE_ERROR:
      return ErrorKind::internal;
    // All other codes, and those that libcurl will add, mean the network, TLS or the bytes that the server sent.
    default:
      return ErrorKind::unavailable;
  }
}

HttpTransfer::HttpTransfer(CURL* handle, HttpRequest request, const HttpTuning& tuning,
                           std::chrono::seconds stall_timeout)
    : handle_{handle}, request_{std::move(request)} {
  curl_easy_reset(handle_);
  curl_easy_setopt(handle_, CURLOPT_PRIVATE, this);
  curl_easy_setopt(handle_, CURLOPT_URL, request_.url.c_str());
  curl_easy_setopt(handle_, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(handle_, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(handle_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle_, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(handle_, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(tuning.connect_timeout.count()));
  if (request_.deadline) {
    curl_easy_setopt(handle_, CURLOPT_TIMEOUT_MS, static_cast<long>(request_.deadline->count()));
  } else {
    curl_easy_setopt(handle_, CURLOPT_LOW_SPEED_LIMIT, slow_bytes_per_second);
    curl_easy_setopt(handle_, CURLOPT_LOW_SPEED_TIME, static_cast<long>(stall_timeout.count()));
  }
  curl_easy_setopt(handle_, CURLOPT_ERRORBUFFER, error_text_.data());
  curl_easy_setopt(handle_, CURLOPT_BUFFERSIZE, buffer_bytes);
  curl_easy_setopt(handle_, CURLOPT_HEADERFUNCTION, &take_header);
  curl_easy_setopt(handle_, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(handle_, CURLOPT_WRITEFUNCTION, &take_body);
  curl_easy_setopt(handle_, CURLOPT_WRITEDATA, this);
  if (request_.is_direct) curl_easy_setopt(handle_, CURLOPT_NOPROXY, "*");
  if (!tuning.ca_bundle.empty()) curl_easy_setopt(handle_, CURLOPT_CAINFO, tuning.ca_bundle.c_str());
  if (request_.follows_redirects) {
    curl_easy_setopt(handle_, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(handle_, CURLOPT_MAXREDIRS, redirects_max);
    curl_easy_setopt(handle_, CURLOPT_REDIR_PROTOCOLS_STR, request_.url.starts_with("https:") ? "https" : "http,https");
  }
  set_up_body();
  for (const auto& [name, value] : request_.headers) {
    headers_ = curl_slist_append(headers_, fmt::format("{}: {}", name, value).c_str());
  }
  // Do not send "Expect: 100-continue": it costs a round trip, and some servers take a second to answer it.
  headers_ = curl_slist_append(headers_, "Expect:");
  curl_easy_setopt(handle_, CURLOPT_HTTPHEADER, headers_);
}

HttpTransfer::~HttpTransfer() {
  curl_slist_free_all(headers_);
}

void HttpTransfer::set_up_body() {
  std::size_t bytes = 0;
  for (const auto& piece : request_.body) bytes += piece.size();
  const bool has_body = bytes > 0 || request_.method == "PUT" || request_.method == "POST";
  if (request_.method == "HEAD") curl_easy_setopt(handle_, CURLOPT_NOBODY, 1L);
  if (has_body) {
    curl_easy_setopt(handle_, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(handle_, CURLOPT_UPLOAD_BUFFERSIZE, buffer_bytes);
    curl_easy_setopt(handle_, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(bytes));
    curl_easy_setopt(handle_, CURLOPT_READFUNCTION, &read_body);
    curl_easy_setopt(handle_, CURLOPT_READDATA, this);
    curl_easy_setopt(handle_, CURLOPT_SEEKFUNCTION, &seek_body);
    curl_easy_setopt(handle_, CURLOPT_SEEKDATA, this);
  }
  curl_easy_setopt(handle_, CURLOPT_CUSTOMREQUEST, request_.method.c_str());
}

long HttpTransfer::status() const {
  long status = 0;
  curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

Result<HttpReply> HttpTransfer::finish(CURLcode code) {
  if (is_too_long_ && status() == http_ok && request_.headers.contains("range"))
    return fail(ErrorKind::invalid, "the server sends all of it when it is asked for a part: it must know Range");
  if (is_too_long_) return fail(ErrorKind::corrupt, "the reply is longer than what was asked for");
  if (code != CURLE_OK && !is_cut_) {
    const std::string_view text = error_text_.front() != '\0' ? error_text_.data() : curl_easy_strerror(code);
    return fail(kind_of_transfer(code), fmt::format("{}{}", text, advice_for(code)));
  }
  reply_.status = status();
  return std::move(reply_);
}

std::size_t HttpTransfer::read_body(char* into, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<HttpTransfer*>(self);
  const auto& body = transfer.request_.body;
  const std::size_t capacity = size * count;
  std::size_t filled = 0;
  while (filled < capacity && transfer.piece_ < body.size()) {
    const auto rest = body[transfer.piece_].subspan(transfer.sent_of_piece_);
    const std::size_t bytes = std::min(rest.size(), capacity - filled);
    if (bytes > 0) std::memcpy(into + filled, rest.data(), bytes);
    filled += bytes;
    transfer.sent_of_piece_ += bytes;
    if (bytes == rest.size()) {
      ++transfer.piece_;
      transfer.sent_of_piece_ = 0;
    }
  }
  return filled;
}

// libcurl seeks only to the start, when it must send the body again over a new connection.
int HttpTransfer::seek_body(void* self, curl_off_t offset, int origin) {
  if (offset != 0 || origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  auto& transfer = *static_cast<HttpTransfer*>(self);
  transfer.piece_ = 0;
  transfer.sent_of_piece_ = 0;
  return CURL_SEEKFUNC_OK;
}

std::size_t HttpTransfer::take_header(char* line, std::size_t size, std::size_t count, void* self) {
  auto& headers = static_cast<HttpTransfer*>(self)->reply_.headers;
  const std::string_view text{line, size * count};
  if (text.starts_with("HTTP/")) headers.clear();  // Drop the headers of an interim reply.
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return text.size();
  const std::string_view value = trim(text.substr(colon + 1));
  std::string& known = headers[to_lower(text.substr(0, colon))];
  known += known.empty() ? value : fmt::format(", {}", value);
  return text.size();
}

std::size_t HttpTransfer::take_body(char* bytes, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<HttpTransfer*>(self);
  const std::size_t length = size * count;
  const std::span<std::byte> into = transfer.request_.into;
  const bool is_success = transfer.status() / 100 == 2;
  const bool is_into = !into.empty() && is_success;
  const std::size_t room =
      is_into ? into.size() - transfer.reply_.into_bytes : reply_bytes_max - transfer.reply_.body.size();
  if (!is_success && transfer.reply_.body.size() + length > refusal_bytes_max) {
    transfer.reply_.body.append(bytes, refusal_bytes_max - transfer.reply_.body.size());
    transfer.is_cut_ = true;
    return 0;  // Ends the transfer: the beginning of a refusal's text says enough.
  }
  if (length > room) {
    transfer.is_too_long_ = true;
    return 0;  // Ends the transfer.
  }
  if (is_into) {
    std::memcpy(into.data() + transfer.reply_.into_bytes, bytes, length);
    transfer.reply_.into_bytes += length;
  } else {
    transfer.reply_.body.append(bytes, length);
  }
  return length;
}

}  // namespace trainyard::storage
