#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::storage {

/// A server of a test's own on a free port of the loopback address. It ends with the test, however that ends.
class ServerProcess {
 public:
  /// Nothing when it does not come up. `command`: the words of its command line, program first, for a port.
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

/// Where scripts/setup keeps what it installs: the value of one of the variables of scripts/lib.sh, such as
/// "tools_home".
[[nodiscard]] std::string install_folder(const std::string& variable);

}  // namespace trainyard::storage
