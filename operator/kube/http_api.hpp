#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "common/clock.hpp"
#include "operator/kube/api.hpp"
#include "operator/kube/connection.hpp"
#include "operator/kube/credentials.hpp"
#include "operator/kube/request_path.hpp"

namespace trainyard::kube {

struct HttpApiOptions {
  std::size_t connections_max = 8;  ///< Concurrent requests. Watches and logs have connections of their own.
  std::chrono::milliseconds request_deadline{10'000};
  std::chrono::milliseconds list_deadline{30'000};  ///< For one page.
};

/// A real API server over HTTPS. Any thread may call. A get or list on a kept-alive connection that the server has just
/// closed is sent once more. Nothing else is retried: callers have the backoff, and `retry_after` if the server gave
/// one.
class HttpApi final : public Api {
 public:
  /// Does not connect yet. ErrorKind::invalid when certificates or key of `config` cannot be used.
  [[nodiscard]] static Result<std::unique_ptr<HttpApi>> make(ClientConfig config, HttpApiOptions options = {});

  [[nodiscard]] Result<json> get(const ResourceType& type, std::string_view name_space, std::string_view name) override;
  [[nodiscard]] Result<ListPage> list(const ResourceType& type, const ListOptions& options) override;
  [[nodiscard]] Result<void> watch(const ResourceType& type, const WatchOptions& options,
                                   const std::function<void(const WatchEvent&)>& on_event,
                                   std::stop_token stop) override;
  [[nodiscard]] Result<json> create(const ResourceType& type, std::string_view name_space, const json& object,
                                    const CreateOptions& options = {}) override;
  [[nodiscard]] Result<json> update(const ResourceType& type, std::string_view name_space, const json& object) override;
  [[nodiscard]] Result<json> update_status(const ResourceType& type, std::string_view name_space,
                                           const json& object) override;
  [[nodiscard]] Result<json> patch(const ResourceType& type, std::string_view name_space, std::string_view name,
                                   PatchType patch_type, const json& patch) override;
  [[nodiscard]] Result<void> remove(const ResourceType& type, std::string_view name_space, std::string_view name,
                                    const DeleteOptions& options = {}) override;

  /// Passes a container's log to `on_bytes` as it arrives, until its end (success) or `stop` (cancelled).
  [[nodiscard]] Result<void> stream_log(std::string_view name_space, std::string_view pod, const LogOptions& options,
                                        const std::function<void(std::string_view)>& on_bytes,
                                        const std::stop_token& stop);

  /// When the API server last sent anything, refusals included; before its first answer, when this object was made.
  [[nodiscard]] Instant last_answer() const { return last_answer_; }

  [[nodiscard]] const std::string& default_namespace() const { return config_.name_space; }

 private:
  HttpApi(ClientConfig config, HttpApiOptions options)
      : config_{std::move(config)}, options_{options}, pool_{config_, options.connections_max} {}
  /// Returns the body of a 2xx reply as JSON, or the error of any other reply. `tried` begins the message of an error.
  [[nodiscard]] Result<json> exchange(const std::string& tried, const HttpRequest& request,
                                      std::chrono::milliseconds deadline);

  const ClientConfig config_;  // connections refer to it
  const HttpApiOptions options_;
  ConnectionPool pool_;
  std::atomic<Instant> last_answer_ = std::chrono::steady_clock::now();
};

}  // namespace trainyard::kube
