#include "worker/rank/rank_link.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "api/contract.hpp"
#include "common/file_descriptor.hpp"
#include "common/logging.hpp"
#include "worker/rank/end_report.hpp"
#include "worker/rank/environment.hpp"
#include "worker/rank/rank_message.hpp"

namespace trainyard::rank {
namespace {

using namespace std::chrono_literals;

constexpr auto alive_interval = 1s;
constexpr auto beat_interval = 100ms;    // Steps may be shorter: not each of them is worth a message.
constexpr auto last_word_deadline = 5s;  // Without the last message the launcher takes an end for a failure.

std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "written by a signal handler");

void catch_sigterm() {
  struct sigaction action {};
  action.sa_handler = [](int) { stop_requested = true; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
}

[[noreturn]] void exit_at_once(int exit_code) {
  // A hung thread may hold the lock of stdout for ever. The text in its buffer is lost then.
  if (ftrylockfile(stdout) == 0) fflush_unlocked(stdout);
  _exit(exit_code);
}

class UnlinkedRank final : public RankLink {
 public:
  void report(const RankProgress& /*progress*/) override {}
  void beat() override {}
  void set_long_wait(std::string_view /*collective*/) override {}
  [[nodiscard]] bool is_stop_requested() const override { return stop_requested; }
  [[nodiscard]] std::optional<CheckpointRequest> checkpoint_request() const override { return std::nullopt; }
  [[nodiscard]] std::optional<RankEnd> group_failure() const override { return std::nullopt; }
  [[noreturn]] void exit(const RankEnd& end) override {
    if (auto written = write_error_file(process_environment(), end, SystemClock{}.now()); !written)
      logging::warn("torchrun's error file not written", {{"error", written.error().message}});
    exit_at_once(end.exit_code);
  }
};

class LinkedRank final : public RankLink {
 public:
  explicit LinkedRank(FileDescriptor socket)
      : socket_{std::move(socket)},
        wake_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)},
        thread_{[this](const std::stop_token& stop) { listen(stop); }} {}

  ~LinkedRank() override {
    thread_.request_stop();
    eventfd_write(wake_.get(), 1);
  }

  void report(const RankProgress& progress) override {
    beat_sent_ = now();
    send(progress);
  }

  void beat() override {
    Instant::rep sent = beat_sent_;
    const Instant::rep time = now();
    if (time - sent < Instant::duration{beat_interval}.count()) return;
    if (beat_sent_.compare_exchange_strong(sent, time)) send_beat();
  }

  void set_long_wait(std::string_view collective) override {
    const std::scoped_lock lock{mutex_};
    long_wait_ = collective;
    send(Beat{.long_wait = long_wait_});  // At once: the next beat may come only after a long step.
  }

  [[nodiscard]] bool is_stop_requested() const override { return stop_requested; }

  [[nodiscard]] std::optional<CheckpointRequest> checkpoint_request() const override {
    if (!is_checkpoint_requested_) return std::nullopt;
    const std::scoped_lock lock{mutex_};
    return checkpoint_request_;
  }

  [[nodiscard]] std::optional<RankEnd> group_failure() const override {
    if (!is_group_broken_) return std::nullopt;
    const std::scoped_lock lock{mutex_};
    return group_failure_;
  }

  [[noreturn]] void exit(const RankEnd& end) override {
    pollfd writable{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
    poll(&writable, 1, static_cast<int>(std::chrono::milliseconds{last_word_deadline}.count()));
    send(end);
    exit_at_once(end.exit_code);
  }

 private:
  static Instant::rep now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

  /// Sends under the lock: a thread that beats must not send an old wait after set_long_wait() has sent a new one.
  void send_beat() {
    const std::scoped_lock lock{mutex_};
    send(Beat{.long_wait = long_wait_});
  }

  void send(const RankMessage& message) {
    const std::string packet = encode(message);
    // A full queue refuses the whole packet: it is dropped, never torn.
    ::send(socket_.get(), packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  void listen(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      send(Alive{});
      std::array<pollfd, 2> waited{{{socket_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
      poll(waited.data(), waited.size(), static_cast<int>(std::chrono::milliseconds{alive_interval}.count()));
      if (waited[0].revents != 0 && !receive()) return;
    }
  }

  bool receive() {
    std::string packet(rank_message_bytes_max, '\0');
    const ssize_t size = recv(socket_.get(), packet.data(), packet.size(), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    // The launcher has closed its end. It resets the connection where it has not read all of our messages.
    if (size <= 0) {
      set_group_failure({.exit_code = contract::exit_failure,
                         .reason = "LauncherLost",
                         .message = "the launcher of this rank has ended",
                         .culprit = {}});
      return false;
    }
    packet.resize(static_cast<std::size_t>(size));
    const auto message = decode_rank_message(packet);
    if (!message) return true;
    if (const auto* end = std::get_if<RankEnd>(&*message)) set_group_failure(*end);
    if (const auto* request = std::get_if<CheckpointRequest>(&*message)) set_checkpoint_request(*request);
    return true;
  }

  void set_group_failure(RankEnd failure) {
    const std::scoped_lock lock{mutex_};
    if (!group_failure_) group_failure_ = std::move(failure);
    is_group_broken_ = true;
  }

  void set_checkpoint_request(const CheckpointRequest& request) {
    const std::scoped_lock lock{mutex_};
    checkpoint_request_ = request;
    is_checkpoint_requested_ = true;
  }

  FileDescriptor socket_;
  FileDescriptor wake_;
  std::atomic<Instant::rep> beat_sent_{0};
  // Both flags are read at every step, so that the mutex is needed only after a message has come.
  std::atomic<bool> is_group_broken_{false};
  std::atomic<bool> is_checkpoint_requested_{false};
  mutable std::mutex mutex_;  // guards the three below
  std::optional<RankEnd> group_failure_;
  std::optional<CheckpointRequest> checkpoint_request_;
  std::string long_wait_;
  std::jthread thread_;
};

/// The socket inherited from the launcher, or none. The variable's number alone is not trusted: it may belong to
/// another file.
FileDescriptor inherited_socket() {
  const auto number = optional_number(process_environment(), env_rank_link, {.min = 3, .max = 65'536});
  if (!number || !*number) return {};
  const int socket = static_cast<int>(**number);
  int type = 0;
  socklen_t size = sizeof(type);
  if (getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET) return {};
  // A rank's own children must not keep the link open after it.
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  unsetenv(std::string{env_rank_link}.c_str());  // NOLINT(concurrency-mt-unsafe): first thing in main.
  return FileDescriptor{socket};
}

}  // namespace

std::unique_ptr<RankLink> open_rank_link() {
  catch_sigterm();
  FileDescriptor socket = inherited_socket();
  if (!socket) return std::make_unique<UnlinkedRank>();
  return std::make_unique<LinkedRank>(std::move(socket));
}

}  // namespace trainyard::rank
