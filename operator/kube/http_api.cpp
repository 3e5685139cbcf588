#include "operator/kube/http_api.hpp"

#include <fmt/format.h>

#include "common/try.hpp"
#include "operator/kube/reply.hpp"
#include "operator/kube/watch_decoder.hpp"

namespace trainyard::kube {
namespace {

HttpRequest get_request(std::string target) {
  return {.method = "GET", .target = std::move(target), .body = {}, .content_type = {}};
}

using std::chrono::milliseconds;

/// How much longer than its timeout a watch may be silent before we give it up.
constexpr std::chrono::seconds watch_slack{10};
constexpr std::chrono::hours log_silence_max{24};

std::string name_of(const json& object) {
  const auto metadata = object.find("metadata");
  if (metadata == object.end() || !metadata->is_object()) return {};
  return metadata->value("name", std::string{});
}

std::string call(std::string_view verb, const ResourceType& type, std::string_view name_space, std::string_view name) {
  return fmt::format("{} {} {}{}{}", verb, type.plural, name_space, name_space.empty() ? "" : "/", name);
}

std::string call_on_many(std::string_view verb, const ResourceType& type, std::string_view name_space) {
  return name_space.empty() ? fmt::format("{} {}", verb, type.plural)
                            : fmt::format("{} {} in {}", verb, type.plural, name_space);
}

/// True when `object` has no `field`, or a text there.
bool is_text_or_absent(const json& object, const char* field) {
  const auto found = object.find(field);
  return found == object.end() || found->is_string();
}

std::string to_body(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

bool is_success(int http_status) {
  return http_status >= 200 && http_status < 300;
}

}  // namespace

Result<std::unique_ptr<HttpApi>> HttpApi::make(ClientConfig config, HttpApiOptions options) {
  std::unique_ptr<HttpApi> api{new HttpApi{std::move(config), options}};
  TRY(api->pool_.acquire(options.request_deadline));
  return api;
}

Result<json> HttpApi::exchange(const std::string& tried, const HttpRequest& request, milliseconds deadline) {
  auto connection = pool_.acquire(deadline);
  if (!connection) return fail(tried, connection.error());
  const bool is_worth_another = request.method == "GET" && (*connection)->is_reused();
  auto reply = (*connection)->exchange(request, deadline);
  if (!reply && reply.error().kind == ErrorKind::unavailable && is_worth_another) {
    reply = (*connection)->exchange(request, deadline);
  }
  if (!reply) return fail(tried, reply.error());
  last_answer_ = std::chrono::steady_clock::now();
  if (!is_success(reply->status)) {
    return tl::unexpected(error_of_reply(tried, reply->status, reply->body, reply->retry_after));
  }
  auto object = parse_object(reply->body);
  if (!object.is_object()) return fail(ErrorKind::corrupt, fmt::format("{}: the reply is not a JSON object", tried));
  return object;
}

Result<json> HttpApi::get(const ResourceType& type, std::string_view name_space, std::string_view name) {
  return exchange(call("get", type, name_space, name), get_request(object_path(type, name_space, name)),
                  options_.request_deadline);
}

Result<ListPage> HttpApi::list(const ResourceType& type, const ListOptions& options) {
  const std::string tried = call_on_many("list", type, options.name_space);
  auto reply = TRY(exchange(tried, get_request(list_path(type, options)), options_.list_deadline));
  const auto items = reply.find("items");
  const auto metadata = reply.find("metadata");
  if (items == reply.end() || metadata == reply.end() || !metadata->is_object() ||
      !is_text_or_absent(*metadata, "resourceVersion") || !is_text_or_absent(*metadata, "continue") ||
      !(items->is_array() || items->is_null())) {
    return fail(ErrorKind::corrupt, fmt::format("{}: the reply is not a list", tried));
  }
  ListPage page;
  if (items->is_array()) page.items = std::move(items->get_ref<json::array_t&>());
  page.resource_version = metadata->value("resourceVersion", std::string{});
  page.continue_token = metadata->value("continue", std::string{});
  return page;
}

Result<void> HttpApi::watch(const ResourceType& type, const WatchOptions& options,
                            const std::function<void(const WatchEvent&)>& on_event, std::stop_token stop) {
  const std::string tried = call_on_many("watch", type, options.name_space);
  auto connection = Connection::make(config_);
  if (!connection) return fail(tried, connection.error());
  WatchDecoder decoder{tried};
  std::optional<Error> failure;
  const auto decode = [&](std::string_view bytes) {
    last_answer_ = std::chrono::steady_clock::now();
    auto decoded = decoder.push(bytes);
    for (const WatchEvent& event : decoded.events) {
      if (stop.stop_requested()) return false;
      on_event(event);
    }
    failure = std::move(decoded.error);
    return !failure;
  };
  const auto reply =
      (*connection)->stream(get_request(watch_path(type, options)), options.timeout + watch_slack, decode, stop);
  if (failure) return tl::unexpected(*failure);
  if (!reply) return fail(tried, reply.error());
  if (!is_success(reply->status)) {
    return tl::unexpected(error_of_reply(tried, reply->status, reply->body, reply->retry_after));
  }
  if (decoder.has_torn_line())
    return fail(ErrorKind::unavailable, fmt::format("{}: the stream ended within an event", tried));
  return {};
}

Result<json> HttpApi::create(const ResourceType& type, std::string_view name_space, const json& object,
                             const CreateOptions& options) {
  return exchange(call("create", type, name_space, name_of(object)),
                  {.method = "POST",
                   .target = create_path(type, name_space, options),
                   .body = to_body(object),
                   .content_type = "application/json"},
                  options_.request_deadline);
}

Result<json> HttpApi::update(const ResourceType& type, std::string_view name_space, const json& object) {
  const std::string name = name_of(object);
  return exchange(call("update", type, name_space, name),
                  {.method = "PUT",
                   .target = object_path(type, name_space, name),
                   .body = to_body(object),
                   .content_type = "application/json"},
                  options_.request_deadline);
}

Result<json> HttpApi::update_status(const ResourceType& type, std::string_view name_space, const json& object) {
  const std::string name = name_of(object);
  return exchange(call("update the status of", type, name_space, name),
                  {.method = "PUT",
                   .target = object_path(type, name_space, name) + "/status",
                   .body = to_body(object),
                   .content_type = "application/json"},
                  options_.request_deadline);
}

Result<json> HttpApi::patch(const ResourceType& type, std::string_view name_space, std::string_view name,
                            PatchType patch_type, const json& patch) {
  const char* content_type =
      patch_type == PatchType::merge ? "application/merge-patch+json" : "application/json-patch+json";
  return exchange(call("patch", type, name_space, name),
                  {.method = "PATCH",
                   .target = object_path(type, name_space, name),
                   .body = to_body(patch),
                   .content_type = content_type},
                  options_.request_deadline);
}

Result<void> HttpApi::remove(const ResourceType& type, std::string_view name_space, std::string_view name,
                             const DeleteOptions& options) {
  json body{{"apiVersion", "v1"}, {"kind", "DeleteOptions"}, {"propagationPolicy", "Background"}};
  if (!options.uid.empty()) body["preconditions"]["uid"] = options.uid;
  if (options.grace_period_seconds) body["gracePeriodSeconds"] = *options.grace_period_seconds;
  TRY(exchange(call("delete", type, name_space, name),
               {.method = "DELETE",
                .target = object_path(type, name_space, name),
                .body = to_body(body),
                .content_type = "application/json"},
               options_.request_deadline));
  return {};
}

Result<void> HttpApi::stream_log(std::string_view name_space, std::string_view pod, const LogOptions& options,
                                 const std::function<void(std::string_view)>& on_bytes, const std::stop_token& stop) {
  const std::string tried = call("read the log of", pods, name_space, pod);
  auto connection = Connection::make(config_);
  if (!connection) return fail(tried, connection.error());
  const auto forward = [&](std::string_view bytes) {
    on_bytes(bytes);
    return true;
  };
  const auto reply =
      (*connection)->stream(get_request(log_path(name_space, pod, options)), log_silence_max, forward, stop);
  if (!reply) return fail(tried, reply.error());
  if (!is_success(reply->status)) {
    return tl::unexpected(error_of_reply(tried, reply->status, reply->body, reply->retry_after));
  }
  return {};
}

}  // namespace trainyard::kube
