#include "worker/launcher/resolver.hpp"

#include <sys/eventfd.h>

#include <utility>

namespace trainyard::launcher {

Resolver::Resolver(std::string host, std::uint16_t port, LookUp look_up)
    : host_{std::move(host)},
      port_{port},
      look_up_{std::move(look_up)},
      ready_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)},
      thread_{[this](const std::stop_token& stop) { run(stop); }} {}

Resolver::~Resolver() = default;

void Resolver::ask() {
  const std::scoped_lock lock{mutex_};
  is_asked_ = true;
  answer_.reset();
  asked_.notify_all();
}

std::optional<Resolver::Answer> Resolver::take_answer() {
  eventfd_t count = 0;
  eventfd_read(ready_.get(), &count);
  const std::scoped_lock lock{mutex_};
  return std::exchange(answer_, std::nullopt);
}

void Resolver::run(const std::stop_token& stop) {
  while (true) {
    {
      std::unique_lock lock{mutex_};
      if (!asked_.wait(lock, stop, [this] { return is_asked_; })) return;
      is_asked_ = false;
    }
    Answer answer = look_up_(host_, port_);
    const std::scoped_lock lock{mutex_};
    answer_ = std::move(answer);
    eventfd_write(ready_.get(), 1);
  }
}

}  // namespace trainyard::launcher
