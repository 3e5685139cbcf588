#pragma once

#include <nlohmann/json_fwd.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>

#include "common/backoff.hpp"
#include "operator/control/watch_state.hpp"
#include "operator/kube/api.hpp"

namespace trainyard::control {

/// Receives the lists and events of an informer, in order, on the informer's thread.
class ObjectSink {
 public:
  virtual ~ObjectSink() = default;
  virtual void begin_list() = 0;
  /// Called in a list before its first object: drops all objects known before, whatever their versions.
  virtual void forget() = 0;
  /// Stores an object of a list or an event.
  virtual void put(const nlohmann::json& object) = 0;
  virtual void erase(const nlohmann::json& object) = 0;
  /// Ends a list: the objects put since begin_list() are all that existed at `resource_version`.
  virtual void end_list(std::string_view resource_version) = 0;
};

struct InformerOptions {
  std::string name_space;  ///< Empty: all.
  std::string label_selector;
  std::string field_selector;
  bool is_optional = false;  ///< A first list that the server forbids is taken for an empty one.
  int page_objects = 100;    ///< Objects in a page of a list: about two megabytes of pods in memory.
  std::chrono::seconds watch_timeout{300};
  Backoff backoff{.initial = std::chrono::milliseconds{200}, .max = std::chrono::milliseconds{15'000}};
};

/// Passes every object of one kind and every change of it to a sink while run() runs. Continues after dropped streams,
/// expired versions and outages of the API server.
class Informer {
 public:
  /// `api` and `sink` outlive the informer. `on_first_list` is called once, on the thread of run().
  Informer(kube::Api& api, const kube::ResourceType& type, InformerOptions options, ObjectSink& sink,
           std::function<void()> on_first_list);

  /// Blocks until `stop` is requested. One thread only.
  void run(const std::stop_token& stop);

  /// Number of watches after the first one. Any thread.
  [[nodiscard]] std::int64_t watch_restarts() const { return watch_restarts_; }

 private:
  /// Makes one request, for a page or a whole watch, and updates the state.
  Result<void> list_or_watch(const std::stop_token& stop);
  Result<void> list_page();
  Result<void> watch(const std::stop_token& stop);
  void handle(const kube::WatchEvent& event);
  void announce_first_list();
  void note_version(const std::string& version);

  kube::Api& api_;
  const kube::ResourceType type_;
  const InformerOptions options_;
  ObjectSink& sink_;
  std::function<void()> on_first_list_;
  WatchState state_;
  std::string newest_version_;                     // Newest version of all lists, events and bookmarks.
  std::atomic<std::int64_t> watch_restarts_ = -1;  // the first watch is no restart
};

}  // namespace trainyard::control
