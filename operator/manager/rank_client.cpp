#include "operator/manager/rank_client.hpp"

#include <fmt/format.h>
#include <httplib.h>

#include <nlohmann/json.hpp>

#include "common/try.hpp"
#include "operator/kube/request_watchdog.hpp"

namespace trainyard::manager {
namespace {

constexpr std::size_t body_bytes_max = 64 << 10;

httplib::Request make_request(std::string path, const std::optional<RankPost>& post) {
  httplib::Request request;
  request.method = post ? "POST" : "GET";
  request.path = std::move(path);
  if (!post) return request;
  request.set_header("Authorization", "Bearer " + post->token);
  request.set_header("Content-Type", "application/json");
  request.body = post->body;
  return request;
}

std::string string_field(const nlohmann::json& object, const char* field) {
  if (!object.is_object()) return {};
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

api::CheckpointRequest refused(std::string_view id, std::string message) {
  return {.id = std::string{id}, .state = api::RequestState::failed, .message = std::move(message)};
}

}  // namespace

Result<RankReply> call_rank(const std::string& url, const std::optional<RankPost>& post,
                            std::chrono::milliseconds deadline) {
  const std::size_t authority = url.find("//") + 2;
  const std::size_t slash = std::min(url.find('/', authority), url.size());
  httplib::Client client{url.substr(0, slash)};
  client.set_connection_timeout(deadline);
  client.set_read_timeout(deadline);
  client.set_write_timeout(deadline);
  const auto end = std::chrono::steady_clock::now() + deadline;
  std::string body;
  httplib::Request request = make_request(slash < url.size() ? url.substr(slash) : "/", post);
  request.content_receiver = [&](const char* bytes, std::size_t count, std::uint64_t, std::uint64_t) {
    body.append(bytes, count);
    return body.size() <= body_bytes_max && std::chrono::steady_clock::now() < end;
  };
  auto watchdog = TRY(kube::RequestWatchdog::start(deadline, [&] { client.stop(); }));
  const auto result = client.send(request);
  watchdog.reset();
  const std::string tried = fmt::format("{} {}", request.method, url);
  if (body.size() > body_bytes_max)
    return fail(ErrorKind::corrupt, fmt::format("{}: more than {} bytes came", tried, body_bytes_max));
  if (!result) {
    if (std::chrono::steady_clock::now() >= end) {
      return fail(ErrorKind::timeout, fmt::format("{}: no answer within {} ms", tried, deadline.count()));
    }
    return fail(ErrorKind::unavailable, fmt::format("{}: no connection, or it broke", tried));
  }
  return RankReply{.status = result->status, .body = std::move(body)};
}

Result<plan::ProgressReport> read_progress(std::string_view answer, std::string_view job_uid, std::int64_t attempt,
                                           Time now) {
  const auto object = nlohmann::json::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return fail(ErrorKind::corrupt, "the answer is not a JSON object");
  const std::string answering_uid = string_field(object, "uid");
  const auto number = object.find("attempt");
  const std::int64_t answering_attempt =
      number != object.end() && number->is_number_integer() ? number->get<std::int64_t>() : 0;
  if (answering_uid != job_uid || answering_attempt != attempt) {
    return fail(ErrorKind::conflict,
                fmt::format("attempt {} of the job with UID \"{}\" answered instead of attempt {} of \"{}\"",
                            answering_attempt, answering_uid.substr(0, 64), attempt, job_uid));
  }
  return plan::read_progress_report(object, attempt, now);
}

std::optional<api::CheckpointRequest> read_request_answer(const RankReply& reply, std::string_view id) {
  const auto object = nlohmann::json::parse(reply.body, nullptr, /*allow_exceptions=*/false);
  switch (reply.status) {
    case 200:
    case 202: {
      auto record = plan::read_request_record(object);
      return record && record->id == id ? std::move(record) : std::nullopt;
    }
    case 404:
    case 405:
    case 501:
      return refused(id, "the container does not take checkpoint requests");
    case 409:
      if (!string_field(object, "id").empty()) return std::nullopt;  // Rank 0 answers another request first.
      break;
    case 400:
    case 401:
    case 403:
      break;
    default:
      return std::nullopt;
  }
  const std::string sentence = string_field(object, "error");
  return refused(id, sentence.empty() ? fmt::format("rank 0 refused it: HTTP {}", reply.status)
                                      : fmt::format("rank 0 refused it: {}", sentence));
}

Result<plan::ProgressReport> RankClient::progress(const std::string& url, const api::TrainingJob& job,
                                                  const Clock& clock) const {
  const auto reply = TRY(call_(url, std::nullopt, deadline_));
  if (reply.status != 200) return fail(ErrorKind::unavailable, fmt::format("GET {}: HTTP {}", url, reply.status));
  return read_progress(reply.body, job.metadata.uid, job.status.attempt, clock.now());
}

std::optional<api::CheckpointRequest> RankClient::send_request(const std::string& url, const std::string& token,
                                                               const plan::RequestToSend& request) const {
  const nlohmann::json body{{"id", request.id}, {"then", request.is_last ? "exit" : "continue"}};
  const auto reply = call_(url, RankPost{.token = token, .body = body.dump()}, deadline_);
  return reply ? read_request_answer(*reply, request.id) : std::nullopt;
}

}  // namespace trainyard::manager
