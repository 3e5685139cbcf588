#include "operator/control/informer.hpp"

#include <malloc.h>

#include <random>
#include <utility>

#include "common/interruptible_wait.hpp"
#include "common/logging.hpp"
#include "operator/control/object_cache.hpp"

namespace trainyard::control {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::string version_of(const kube::json& object) {
  const auto metadata = object.find("metadata");
  if (metadata == object.end() || !metadata->is_object()) return {};
  const auto version = metadata->find("resourceVersion");
  return version != metadata->end() && version->is_string() ? version->get<std::string>() : std::string{};
}

}  // namespace

Informer::Informer(kube::Api& api, const kube::ResourceType& type, InformerOptions options, ObjectSink& sink,
                   std::function<void()> on_first_list)
    : api_{api}, type_{type}, options_{std::move(options)}, sink_{sink}, on_first_list_{std::move(on_first_list)} {}

void Informer::run(const std::stop_token& stop) {
  std::minstd_rand random{std::random_device{}()};
  while (!stop.stop_requested()) {
    const Result<void> last = list_or_watch(stop);
    if (stop.stop_requested()) return;
    const milliseconds delay =
        delay_before_next(state_, options_.backoff, last, std::uniform_real_distribution<>{0.0, 1.0}(random));
    if (!last) {
      logging::warn("informer will try again",
                    {{"resource", type_.plural}, {"error", last.error().message}, {"delayMs", delay.count()}});
    }
    if (!wait_unless_stopped(stop, delay)) return;
  }
}

Result<void> Informer::list_or_watch(const std::stop_token& stop) {
  return state_.phase == WatchState::Phase::listing ? list_page() : watch(stop);
}

Result<void> Informer::list_page() {
  const bool is_first_page = state_.continue_token.empty();
  if (is_first_page) sink_.begin_list();
  const auto page = api_.list(type_, {.name_space = options_.name_space,
                                      .label_selector = options_.label_selector,
                                      .field_selector = options_.field_selector,
                                      .resource_version = {},
                                      .continue_token = state_.continue_token,
                                      .limit = options_.page_objects});
  if (!page) {
    state_ = after_list_failure(std::move(state_), page.error());
    if (options_.is_optional && page.error().kind == ErrorKind::forbidden) announce_first_list();
    return tl::unexpected(page.error());
  }
  // A list is of the server's newest version. If that is older than a version seen before, etcd was restored from a
  // backup. Caches keep the newer of two versions, and so would never take over the restored objects.
  if (is_first_page && is_older_version(page->resource_version, newest_version_)) {
    logging::warn("the API server has an older version than before: the cache is emptied and listed again",
                  {{"resource", type_.plural}, {"version", page->resource_version}, {"before", newest_version_}});
    newest_version_.clear();
    sink_.forget();
  }
  note_version(page->resource_version);
  for (const kube::json& object : page->items) sink_.put(object);
  state_ = after_page(std::move(state_), *page);
  if (state_.phase == WatchState::Phase::watching) {
    sink_.end_list(state_.resource_version);
    // The memory of the pages is free now, but lies between the objects that were kept: returns it to the system.
    if (!is_first_page) malloc_trim(0);
    announce_first_list();
  }
  return {};
}

void Informer::note_version(const std::string& version) {
  if (is_older_version(newest_version_, version)) newest_version_ = version;
}

void Informer::announce_first_list() {
  if (on_first_list_) std::exchange(on_first_list_, nullptr)();
}

Result<void> Informer::watch(const std::stop_token& stop) {
  ++watch_restarts_;
  const auto start = steady_clock::now();
  bool is_eventful = false;
  const kube::WatchOptions options{.name_space = options_.name_space,
                                   .label_selector = options_.label_selector,
                                   .field_selector = options_.field_selector,
                                   .resource_version = state_.resource_version,
                                   .timeout = options_.watch_timeout};
  auto ended = api_.watch(
      type_, options,
      [&](const kube::WatchEvent& event) {
        is_eventful = true;
        handle(event);
      },
      stop);
  state_ = after_watch(std::move(state_), ended, duration_cast<milliseconds>(steady_clock::now() - start), is_eventful);
  return ended;
}

void Informer::handle(const kube::WatchEvent& event) {
  switch (event.type) {
    case kube::WatchEventType::added:
    case kube::WatchEventType::modified:
      sink_.put(event.object);
      break;
    case kube::WatchEventType::deleted:
      sink_.erase(event.object);
      break;
    case kube::WatchEventType::bookmark:
      break;
  }
  note_version(version_of(event.object));
  state_ = after_event(std::move(state_), version_of(event.object));
}

}  // namespace trainyard::control
