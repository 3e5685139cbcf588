#include "worker/train/tracer.hpp"

#include <fmt/format.h>
#include <stdlib.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <cerrno>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "common/logging.hpp"
#include "worker/dist/torch_error.hpp"

namespace trainyard::train {
namespace {

using torch::autograd::profiler::ProfilerResult;
using torch::profiler::impl::ActivityType;

/// A folder that the destructor removes.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "trainyard-trace-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw std::system_error{errno, std::generic_category(), "making the folder " + name};
    path_ = name;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;  // A file that is left in the temporary folder harms nobody.
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string file(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::string chrome_trace(ProfilerResult& result) {
  const ScratchFolder folder;
  const std::string path = folder.file("trace.json");
  result.save(path);  // The profiler writes to files only.
  std::ifstream file{path, std::ios::binary};
  file.exceptions(std::ios::failbit | std::ios::badbit);
  return {std::istreambuf_iterator<char>{file}, {}};
}

void warn_of_no_trace(std::string_view error) {
  logging::warn("no trace of this rank; training goes on", {{"error", error}});
}

/// Calls `act`. An exception becomes a warning.
void warn_of_failure(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::exception& error) {
    warn_of_no_trace(dist::message_of(error));
  }
}

void store(storage::Store& store, const std::string& key, ProfilerResult& result) {
  const std::string json = chrome_trace(result);
  if (const auto put = storage::put_text(store, key, json); !put) return warn_of_no_trace(put.error().message);
  logging::info("trace stored", {{"uri", store.uri_of(key)}, {"bytes", json.size()}});
}

}  // namespace

std::string trace_key(Time began, std::int64_t attempt, std::int64_t rank) {
  const auto micros = std::chrono::floor<std::chrono::microseconds>(began).time_since_epoch().count();
  return fmt::format("trace.{:016d}.{:04d}.rank-{}.json", micros, attempt, rank);
}

Tracer::Tracer(LogPlace place, std::string key, const api::ProfileSpec& profile, torch::Device device)
    : key_{place.folder + key}, profile_{profile}, device_{device}, place_{std::move(place)} {}

void Tracer::before_step() {
  ++steps_;
  if (steps_ == profile_.first_step) start();
}

void Tracer::after_step() {
  if (is_recording_ && steps_ == profile_.first_step + profile_.steps - 1) stop();
}

void Tracer::end_recording() {
  if (is_recording_) stop();
}

bool Tracer::finish(std::chrono::milliseconds timeout) {
  end_recording();
  return !stored_.valid() || stored_.wait_for(timeout) == std::future_status::ready;
}

void Tracer::start() {
  namespace profiler = torch::autograd::profiler;
  std::set<ActivityType> activities{ActivityType::CPU};
  if (device_.is_cuda()) activities.insert(ActivityType::CUDA);
  const profiler::ProfilerConfig config{profiler::ProfilerState::KINETO};
  warn_of_failure([&] {
    profiler::prepareProfiler(config, activities);
    profiler::enableProfiler(config, activities);
    is_recording_ = true;
  });
}

void Tracer::stop() {
  is_recording_ = false;
  warn_of_failure([&] {
    std::shared_ptr<ProfilerResult> result = torch::autograd::profiler::disableProfiler();
    std::packaged_task<void()> task{[this, result = std::move(result)]() mutable {
      // The task outlives its call, and the trace is large.
      const std::shared_ptr<ProfilerResult> own = std::exchange(result, nullptr);
      warn_of_failure([&] { store(*place_.store, key_, *own); });
    }};
    stored_ = task.get_future();
    thread_ = std::jthread{std::move(task)};
  });
}

}  // namespace trainyard::train
