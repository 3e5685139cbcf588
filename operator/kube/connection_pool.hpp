#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "common/result.hpp"
#include "operator/kube/connection.hpp"

namespace trainyard::kube {

/// At most `connections_max` connections, each lent to one thread at a time. The connection that was returned last is
/// lent first. Any thread may call.
class ConnectionPool {
 public:
  /// Returns the connection to the pool in its destructor.
  class Lease {
   public:
    Lease(ConnectionPool& pool, std::unique_ptr<Connection> connection)
        : pool_{&pool}, connection_{std::move(connection)} {}
    Lease(Lease&&) = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (connection_) pool_->give_back(std::move(connection_));
    }
    Connection* operator->() const { return connection_.get(); }

   private:
    ConnectionPool* pool_;
    std::unique_ptr<Connection> connection_;
  };

  /// `config` must outlive the pool.
  ConnectionPool(const ClientConfig& config, std::size_t connections_max)
      : config_{config}, connections_max_{connections_max} {}

  /// ErrorKind::timeout if no connection is free within `deadline`.
  [[nodiscard]] Result<Lease> lease(std::chrono::milliseconds deadline);

 private:
  void give_back(std::unique_ptr<Connection> connection);

  const ClientConfig& config_;
  const std::size_t connections_max_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable returned_;
  std::size_t lent_count_ = 0;
  std::vector<std::unique_ptr<Connection>> idle_;
};

}  // namespace trainyard::kube
