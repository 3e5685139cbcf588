#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/result.hpp"
#include "storage/credentials.hpp"
#include "storage/http_client.hpp"
#include "storage/transfer_plan.hpp"

namespace trainyard::storage {

/// A request to a cloud's storage service, before it is authorised.
struct CloudRequest {
  std::string method;
  std::string path;                                        ///< From the first '/' on, percent-encoded as it is sent.
  std::vector<std::pair<std::string, std::string>> query;  ///< Not encoded.
  std::map<std::string, std::string> headers;              ///< Names in lower case.
  std::vector<std::span<const std::byte>> body;
  std::span<std::byte> into;
  std::optional<std::chrono::milliseconds> deadline;  ///< As HttpRequest's.
};

/// One request, and the functions that judge its reply.
struct CloudCall {
  std::function<CloudRequest()> make;                      ///< Called for every try.
  std::function<Result<void>(const HttpReply&)> accept;    ///< Judges a 2xx reply.
  std::string doing;                                       ///< "put gs://bucket/key"
  std::optional<std::chrono::milliseconds> patience = {};  ///< Instead of the tuning's.
  /// Judges any other reply and the error that it means. Absent: the call fails with that error.
  std::function<Result<void>(const HttpReply&, const Error&)> refuse = {};
};

/// Where a cloud's storage service is, how requests to it are authorised, and how its errors are read.
struct CloudService {
  std::string endpoint;                  ///< "https://host:port"
  std::shared_ptr<AccessTokens> tokens;  ///< Every request carries their token; nullptr: none.
  std::string query_token;               ///< Encoded; added to every request's query to authorise it. Empty: none.
  std::function<Result<void>(CloudRequest&)> sign;  ///< Adds the headers that authorise a request. May be absent.
  /// The error that a reply other than 2xx means; the message holds `doing` and no secret.
  std::function<Error(const HttpReply&, std::string_view doing)> error_of;
};

/// Authorised requests to a cloud's storage service, with retries. A request whose token the server refuses is repeated
/// once with a new one. Any thread may call.
class CloudClient {
 public:
  CloudClient(CloudService service, HttpTuning tuning);

  [[nodiscard]] Result<void> perform(std::span<const CloudCall> calls, std::size_t connection_count,
                                     OnError on_error = OnError::cut, const std::stop_token& stop = {});
  /// Sends one request and returns its 2xx reply.
  [[nodiscard]] Result<HttpReply> send(std::string doing, CloudRequest request,
                                       std::optional<std::chrono::milliseconds> patience = {});
  /// Fills `into` with the bytes from `offset` on of the object that `whole` asks for, by requests of parts as `plan`
  /// says. ErrorKind::corrupt when the object is shorter.
  [[nodiscard]] Result<void> read_range(const std::string& doing, const CloudRequest& whole, std::uint64_t offset,
                                        std::span<std::byte> into, const TransferPlan& plan);
  /// As HttpClient's.
  [[nodiscard]] std::string trouble() const { return http_.trouble(); }

 private:
  [[nodiscard]] Result<HttpRequest> authorise(CloudRequest request, std::string& used_token) const;

  const CloudService service_;
  HttpClient http_;
};

}  // namespace trainyard::storage
