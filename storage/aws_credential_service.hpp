#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "common/result.hpp"
#include "storage/http_client.hpp"

namespace trainyard::storage {

/// The servers that give credentials, and how long one request to them may take. Any thread may call.
struct AwsCredentialService {
  HttpClient http;
  std::chrono::milliseconds deadline;

  /// Makes one request. `parse` judges the reply, of any status.
  template <typename T, typename Parse>
  Result<T> ask(const std::string& doing, HttpRequest request, const Parse& parse) {
    request.deadline = deadline;
    Result<T> answer;
    const HttpCall call{.doing = doing,
                        .make = [&] { return request; },
                        .accept = [&](const HttpReply& reply) -> Result<void> {
                          answer = parse(reply);
                          return answer ? Result<void>{} : fail(doing, answer.error());
                        }};
    if (auto asked = http.perform({&call, 1}, 1); !asked) return tl::unexpected(asked.error());
    return answer;
  }
};

}  // namespace trainyard::storage
