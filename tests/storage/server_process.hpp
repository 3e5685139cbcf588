#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::storage {

/// A server for a test on a free port of the loopback address. It ends with the test, even if the test is killed.
class ServerProcess {
 public:
  /// nullptr when it does not start. `command` returns the command line for a port, the program first.
  [[nodiscard]] static std::unique_ptr<ServerProcess> start(
      const std::function<std::vector<std::string>(std::uint16_t port)>& command);

  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess();

  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  ServerProcess(std::uint16_t port, const std::vector<std::string>& arguments);
  [[nodiscard]] bool comes_up();
  [[nodiscard]] bool accepts() const;

  std::uint16_t port_;
  pid_t pid_ = -1;
};

/// A folder of what scripts/setup installs: the value of a variable of scripts/lib.sh, such as "tools_home".
[[nodiscard]] std::string install_folder(const std::string& variable);

}  // namespace trainyard::storage
