#include "worker/train/log_files.hpp"

#include <algorithm>
#include <utility>

#include "checkpoint/run/store_options.hpp"
#include "common/try.hpp"
#include "worker/checkpoint/checkpointer.hpp"

namespace trainyard::train {

LogFiles::LogFiles(std::unique_ptr<storage::Store> store, const Clock& clock, logs::WriterSettings settings,
                   const snapshot::Limits& limits)
    : clock_{clock},
      attempt_{settings.attempt},
      shows_images_{std::ranges::find(settings.files, api::LogFile::tensorboard) != settings.files.end()},
      images_{"log", limits},
      writer_{std::move(store), clock, std::move(settings)} {}

void LogFiles::begin(std::int64_t step, std::int64_t epoch) {
  step_ = step;
  writer_.add(logs::Start{.attempt = attempt_, .step = step, .epoch = epoch, .time = clock_.now()});
}

void LogFiles::add(const observe::MetricValues& values, snapshot::Over over, std::int64_t epoch) {
  writer_.add(logs::Record{.attempt = attempt_,
                           .over = over,
                           .step = step_,
                           .epoch = epoch,
                           .time = clock_.now(),
                           .values = values,
                           .images = images_.take()});
}

void LogFiles::log_image(std::string_view name, const torch::Tensor& image) {
  if (shows_images_) images_.add(name, image, step_);
}

Result<LogPlace> open_log_place(const Job& job) {
  if (!job.training.log_uri.empty()) {
    const api::S3Spec s3 = job.checkpoint ? job.checkpoint->s3 : api::S3Spec{};
    auto store = TRY(storage::open_store(job.training.log_uri, checkpoint::options_of(s3)));
    return LogPlace{.store = std::move(store), .folder = {}};
  }
  auto store = TRY(checkpoint::open_place(*job.checkpoint));
  return LogPlace{.store = std::move(store), .folder = "logs/"};
}

}  // namespace trainyard::train
