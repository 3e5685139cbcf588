#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/child_program.hpp"
#include "local/process_group.hpp"
#include "tests/cli/program_fixture.hpp"
#include "tests/fakes/free_port.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::cli {

/// An sshd on each of some hosts, which lets this user in with a key of its own. All listen on one port.
class SshServer {
 public:
  struct Host {
    std::vector<std::string> addresses;
    std::vector<std::string> command_prefix{};  ///< What starts a command on the host; empty for this machine.
  };

  explicit SshServer(const std::vector<Host>& hosts) : port_{std::to_string(fakes::free_port())} {
    // As root sshd wants this folder, which its service would make.
    if (::geteuid() == 0) std::filesystem::create_directories("/run/sshd");
    for (const std::string key : {"host_key", "key"}) {
      const auto made = run_program({"/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path(key)},
                                    std::chrono::minutes{1});
      EXPECT_TRUE(made && made->exit_code == 0) << (made ? made->words : made.error().message);
    }
    folder_.write("ssh_config", "Host *\nPort " + port_ + "\nIdentityFile " + path("key") +
                                    "\nIdentitiesOnly yes\nUserKnownHostsFile /dev/null\nStrictHostKeyChecking no\n"
                                    "LogLevel ERROR\n");
    for (const Host& host : hosts) start(host);
  }

  /// The file for `trainyard run --ssh-config`.
  [[nodiscard]] std::string config() const { return path("ssh_config"); }

 private:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

  void start(const Host& host) {
    const std::string name = host.addresses.front();
    std::string config = "Port " + port_ + "\nHostKey " + path("host_key") + "\nAuthorizedKeysFile " + path("key.pub") +
                         "\nPidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
                         "KbdInteractiveAuthentication no\nMaxStartups 100\n";
    for (const std::string& address : host.addresses) config += "ListenAddress " + address + "\n";
    std::vector<std::string> arguments = host.command_prefix;
    arguments.insert(arguments.end(),
                     {"/usr/sbin/sshd", "-D", "-e", "-f", folder_.write("sshd_config-" + name, config).string()});
    const std::string log = path("log-" + name);
    auto server = local::ProcessGroup::start(
        {.arguments = arguments, .environment = {"PATH=/usr/bin:/bin"}, .output_path = log, .error_path = log});
    ASSERT_TRUE(server) << server.error().message;
    servers_.push_back(*std::move(server));
    const auto is_listening = [&] {
      const std::string text = fakes::text_of(log);
      return std::ranges::all_of(host.addresses, [&](const std::string& address) {
        return text.find("listening on " + address) != std::string::npos;
      });
    };
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!is_listening()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << fakes::text_of(log);
      ::poll(nullptr, 0, 5);
    }
  }

  const fakes::TemporaryFolder folder_;
  std::string port_;
  std::vector<local::ProcessGroup> servers_;
};

}  // namespace trainyard::cli
