#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "tests/cluster/child.hpp"

namespace trainyard::integration {

/// A running trainyard-operator. The destructor kills it, and so does the end of this process.
class OperatorProcess {
 public:
  /// On a free port, with its Lease in `election_namespace`; `flags` come after these.
  [[nodiscard]] static Result<std::unique_ptr<OperatorProcess>> start(const std::filesystem::path& kubeconfig,
                                                                      const std::string& election_namespace,
                                                                      const std::vector<std::string>& flags = {});
  ~OperatorProcess();
  OperatorProcess(const OperatorProcess&) = delete;
  OperatorProcess& operator=(const OperatorProcess&) = delete;

  void signal(int number);
  /// Waits for the end of the process, by itself or by `signal`. Returns its exit code, or 128 + the signal's number.
  int wait();

  /// Its log so far.
  [[nodiscard]] std::string log() const;
  [[nodiscard]] bool is_leader() const { return log().find("\"message\":\"leading\"") != std::string::npos; }
  /// The peak of its resident memory; 0 when it has ended.
  [[nodiscard]] std::int64_t peak_resident_bytes() const { return memory_bytes("VmHWM:"); }
  /// Its resident memory now; 0 when it has ended.
  [[nodiscard]] std::int64_t resident_bytes() const { return memory_bytes("VmRSS:"); }

 private:
  explicit OperatorProcess(cluster::Child child) : child_{child} {}
  /// The value of `field` in the process's /proc/PID/status, in bytes.
  [[nodiscard]] std::int64_t memory_bytes(std::string_view field) const;

  cluster::Child child_;
  bool is_ended_ = false;
};

}  // namespace trainyard::integration
