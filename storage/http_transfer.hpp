#pragma once

#include <curl/curl.h>

#include <array>
#include <chrono>
#include <memory>

#include "common/result.hpp"
#include "storage/http_message.hpp"

namespace trainyard::storage {

struct HttpTuning;

/// The kind of error of a transfer that libcurl ended with `code`: unavailable or timeout where a later try may
/// succeed, invalid for a wrong URL, proxy or certificate, internal for codes that only misuse of libcurl gives. Pure.
[[nodiscard]] ErrorKind kind_of_transfer(CURLcode code);

/// One request in flight. It cannot move, since libcurl's callbacks hold its address.
class HttpTransfer {
 public:
  /// Prepares `handle`: resets its settings and keeps its connections.
  HttpTransfer(CURL* handle, HttpRequest request, const HttpTuning& tuning, std::chrono::seconds stall_timeout);
  HttpTransfer(const HttpTransfer&) = delete;
  HttpTransfer& operator=(const HttpTransfer&) = delete;
  ~HttpTransfer();

  /// The reply, once libcurl has ended the transfer with `code`. Errors: those of kind_of_transfer(), and corrupt for a
  /// reply that is longer than asked for.
  [[nodiscard]] Result<HttpReply> finish(CURLcode code);

  [[nodiscard]] CURL* handle() const { return handle_; }

 private:
  static std::size_t read_body(char* into, std::size_t size, std::size_t count, void* self);
  static int seek_body(void* self, curl_off_t offset, int origin);
  static std::size_t take_header(char* line, std::size_t size, std::size_t count, void* self);
  static std::size_t take_body(char* bytes, std::size_t size, std::size_t count, void* self);

  void set_up_body();
  [[nodiscard]] long status() const;

  CURL* handle_;
  HttpRequest request_;
  HttpReply reply_;
  curl_slist* headers_ = nullptr;
  std::size_t piece_ = 0;  // Index in request_.body of the next piece to read.
  std::size_t sent_of_piece_ = 0;
  bool is_too_long_ = false;
  bool is_cut_ = false;  // Ended by us, since enough of a refusal's text has come.
  std::array<char, CURL_ERROR_SIZE> error_text_{};
};

}  // namespace trainyard::storage
