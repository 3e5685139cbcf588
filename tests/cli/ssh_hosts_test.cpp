// `trainyard run -H` on two hosts: network namespaces with an address, a link and an sshd each.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/child_program.hpp"
#include "tests/cli/program_fixture.hpp"
#include "tests/cli/ssh_server.hpp"
#include "tests/paths/paths.hpp"
#include "tests/skips.hpp"

namespace trainyard::cli {
namespace {

using testing::HasSubstr;

/// Hosts of a network of their own. All is gone after the destructor.
class Network {
 public:
  explicit Network(int host_count) {
    ip({"netns", "add", bridge_});
    ip({"-n", bridge_, "link", "add", "bridge", "type", "bridge"});
    ip({"-n", bridge_, "link", "set", "bridge", "up"});
    for (int host = 1; host <= host_count; ++host) {
      const std::string name = name_of(host);
      hosts_.push_back(name);
      ip({"netns", "add", name});
      ip({"-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", port_of(host), "netns", bridge_});
      ip({"-n", name, "addr", "add", address_of(host) + "/24", "dev", "eth0"});
      ip({"-n", name, "link", "set", "lo", "up"});
      ip({"-n", name, "link", "set", "eth0", "up"});
      ip({"-n", bridge_, "link", "set", port_of(host), "master", "bridge", "up"});
    }
  }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  ~Network() {
    for (const std::string& host : hosts_) ip({"netns", "del", host});
    ip({"netns", "del", bridge_});
  }

  /// The first failure of a command; empty without one.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }
  [[nodiscard]] static std::string address_of(int host) { return "10.78.0." + std::to_string(host); }
  [[nodiscard]] static std::vector<std::string> command_prefix(int host) {
    return {program, "netns", "exec", name_of(host)};
  }
  /// Pulls the cable of a host, or puts it in again.
  void set_link(int host, bool is_up) { ip({"-n", bridge_, "link", "set", port_of(host), is_up ? "up" : "down"}); }
  /// The bytes that a host has sent over its link; -1 where they cannot be read.
  [[nodiscard]] static std::int64_t sent_bytes(int host) {
    auto command = command_prefix(host);
    command.insert(command.end(), {"/bin/cat", "/sys/class/net/eth0/statistics/tx_bytes"});
    const auto read = run_program(command, patience);
    return read && read->exit_code == 0 ? std::stoll(read->output) : -1;
  }

 private:
  static constexpr const char* program = "/bin/ip";

  [[nodiscard]] static std::string port_of(int host) { return "host" + std::to_string(host); }
  [[nodiscard]] static std::string name_of(int host) {
    return "trainyard-test-" + std::to_string(::getpid()) + "-" + std::to_string(host);
  }
  void ip(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), program);
    const auto done = run_program(arguments, patience);
    if (trouble_.empty() && !(done && done->exit_code == 0)) trouble_ = done ? done->words : done.error().message;
  }

  const std::string bridge_ = name_of(0);
  std::vector<std::string> hosts_;
  std::string trouble_;
};

class SshHostsTest : public ProgramTest {
 protected:
  void SetUp() override {
    if (!network_.trouble().empty())
      return tests::cannot_run("hosts as network namespaces need root: " + network_.trouble());
    std::vector<SshServer::Host> hosts;
    for (const int host : {1, 2}) {
      hosts.push_back({.addresses = {Network::address_of(host)}, .command_prefix = Network::command_prefix(host)});
    }
    server_ = std::make_unique<SshServer>(hosts);
  }
  /// Starts `trainyard run` on the first host, for a rank on each.
  local::ProcessGroup start_on_both(const std::string& job) {
    std::vector<std::string> command = Network::command_prefix(1);
    command.insert(command.end(),
                   {paths::program("trainyard"), "run", "-H", Network::address_of(1) + "," + Network::address_of(2),
                    "-np", "2", "--ssh-config", server_->config(), folder_.write("job.yaml", job).string()});
    return start_program(command);
  }

  Network network_{2};
  std::unique_ptr<SshServer> server_;
};

TEST_F(SshHostsTest, TrainsAcrossThemAndGoesOnFromACheckpointOnceALostHostIsBack) {
  auto group = start_on_both(R"(
apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: job}
spec:
  gpusPerPod: 0
  restart: {backoff: {initial: 1s, max: 1s}}
  training:
    model: {name: fashion_cnn}
    data: {format: synthetic, samples: 160}
    batchSize: 8
    epochs: 8
)");
  ASSERT_TRUE(appears("trainyard-runs/job/checkpoints/step-10/g-1/manifest.json")) << out() << err();
  network_.set_link(2, false);
  EXPECT_TRUE(says("Attempt 1 ended")) << err();
  network_.set_link(2, true);
  const ProgramOutcome outcome = end_of(group);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("Attempt 1 ended: rank 1 on 10.78.0.2 failed"));
  EXPECT_THAT(outcome.out, HasSubstr("nothing was heard from its launcher at 10.78.0.2 for 10 s"));
  EXPECT_THAT(outcome.out, HasSubstr("at step 80 after "));
  constexpr std::int64_t gradient_bytes = 5'901'352;  // of this model in a step of two ranks
  EXPECT_GT(Network::sent_bytes(2), 60 * gradient_bytes) << "the hosts exchange by their network";
}

}  // namespace
}  // namespace trainyard::cli
