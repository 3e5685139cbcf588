#include "cli/job_watch.hpp"

#include <utility>

#include "common/logging.hpp"

namespace trainyard::cli {

JobWatch::JobWatch(kube::Api& api, std::string name_space, std::string name)
    : api_{api}, name_space_{std::move(name_space)}, name_{std::move(name)} {
  thread_ = std::jthread{[this](const std::stop_token& stop) { run(stop); }};
}

void JobWatch::wait(std::chrono::milliseconds limit) {
  std::unique_lock lock{mutex_};
  changed_.wait_for(lock, limit, [this] { return has_news_; });
  has_news_ = false;
}

std::optional<api::TrainingJob> JobWatch::latest() const {
  const std::scoped_lock lock{mutex_};
  return latest_;
}

void JobWatch::run(const std::stop_token& stop) {
  // Each watch begins without a version, so its first event is the job's present state.
  while (!stop.stop_requested()) {
    const auto ended = api_.watch(
        kube::training_jobs, {.name_space = name_space_},
        [this](const kube::WatchEvent& event) {
          if (event.type == kube::WatchEventType::bookmark || event.object.at("metadata").value("name", "") != name_)
            return;
          auto job = api::parse_training_job(event.object);
          if (!job) {
            logging::error("a job's status cannot be read", {{"job", name_}, {"error", job.error().message}});
            return;
          }
          {
            const std::scoped_lock lock{mutex_};
            latest_ = *std::move(job);
            has_news_ = true;
          }
          changed_.notify_all();
        },
        stop);
    if (!ended && ended.error().kind != ErrorKind::cancelled) {
      logging::debug("watch ended, starting it again", {{"job", name_}, {"error", ended.error().message}});
    }
  }
}

}  // namespace trainyard::cli
