#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/kube/api.hpp"
#include "tests/fakes/gate.hpp"

namespace trainyard::fakes {

using nlohmann::json;

/// One request to the server.
struct ApiCall {
  std::int64_t number = 0;  ///< From 1; watches have no number.
  std::string verb;         ///< "get", "list", "create", "update", "update status", "patch", "delete"
  std::string plural;
  std::string name;
  std::string name_space;
  bool is_dry_run = false;
  bool is_strict = false;
  std::string uid;  ///< The object that the server made, changed, returned or deleted.
};

/// The fault of a call.
struct Fault {
  enum class Kind {
    refused,      ///< It does not reach the server; the caller gets `error`.
    reply_lost,   ///< The server handles it; the caller gets `error`.
    dies_before,  ///< The caller is killed before it is sent: all calls are cancelled from now on.
    dies_after,   ///< The caller is killed after the server has handled it.
    delayed,      ///< It waits at `gate`; then the server handles it.
  };
  Kind kind = Kind::refused;
  Error error{.kind = ErrorKind::unavailable, .message = "the connection was reset"};
  Gate* gate = nullptr;  ///< Must outlive the call.
};

/// A kube::Api that passes calls on to another one, with faults. Any thread may call.
class FaultyApi final : public kube::Api {
 public:
  /// Sets the function that gives the fault of each call; without one, calls pass.
  using Schedule = std::function<std::optional<Fault>(const ApiCall&)>;

  explicit FaultyApi(kube::Api& api) : api_{api} {}

  void set_schedule(Schedule schedule);
  /// Lets the successor of the killed caller call again. The schedule stays.
  void revive();
  [[nodiscard]] bool is_dead() const;
  [[nodiscard]] std::int64_t calls() const;
  /// Every call that the server handled, in order, without dry runs.
  [[nodiscard]] std::vector<ApiCall> done() const;
  /// Every call that the server refused as invalid.
  [[nodiscard]] std::vector<ApiCall> invalid() const;

  Result<json> get(const kube::ResourceType& type, std::string_view name_space, std::string_view name) override;
  Result<kube::ListPage> list(const kube::ResourceType& type, const kube::ListOptions& options) override;
  Result<void> watch(const kube::ResourceType& type, const kube::WatchOptions& options,
                     const std::function<void(const kube::WatchEvent&)>& on_event, std::stop_token stop) override;
  Result<json> create(const kube::ResourceType& type, std::string_view name_space, const json& object,
                      const kube::CreateOptions& options) override;
  Result<json> update(const kube::ResourceType& type, std::string_view name_space, const json& object) override;
  Result<json> update_status(const kube::ResourceType& type, std::string_view name_space, const json& object) override;
  Result<json> patch(const kube::ResourceType& type, std::string_view name_space, std::string_view name,
                     kube::PatchType patch_type, const json& patch) override;
  Result<void> remove(const kube::ResourceType& type, std::string_view name_space, std::string_view name,
                      const kube::DeleteOptions& options) override;

 private:
  template <typename T, typename Send>
  Result<T> pass(ApiCall call, Send send);
  std::optional<Fault> begin(ApiCall& call);
  template <typename T>
  void note(ApiCall call, const Result<T>& reply);

  kube::Api& api_;
  mutable std::mutex mutex_;  // guards everything below
  Schedule schedule_;
  std::int64_t calls_ = 0;
  bool is_dead_ = false;
  std::vector<ApiCall> done_;
  std::vector<ApiCall> invalid_;
};

}  // namespace trainyard::fakes
