#include "operator/kube/connection_pool.hpp"

#include <fmt/format.h>

#include "common/try.hpp"

namespace trainyard::kube {

Result<ConnectionPool::Lease> ConnectionPool::lease(std::chrono::milliseconds deadline) {
  std::unique_lock lock{mutex_};
  if (!returned_.wait_for(lock, deadline, [&] { return lent_count_ < connections_max_; })) {
    return fail(ErrorKind::timeout, fmt::format("all {} connections to the API server were in use for {} ms",
                                                connections_max_, deadline.count()));
  }
  std::unique_ptr<Connection> connection;
  if (idle_.empty()) {
    connection = TRY(Connection::make(config_));
  } else {
    connection = std::move(idle_.back());
    idle_.pop_back();
  }
  ++lent_count_;
  return Lease{*this, std::move(connection)};
}

void ConnectionPool::give_back(std::unique_ptr<Connection> connection) {
  {
    const std::scoped_lock lock{mutex_};
    --lent_count_;
    idle_.push_back(std::move(connection));
  }
  returned_.notify_one();
}

}  // namespace trainyard::kube
