#include "tests/storage/cloud_server.hpp"

#include <fmt/format.h>
#include <httplib.h>

#include <vector>

#include "common/check.hpp"
#include "tests/paths/paths.hpp"

namespace trainyard::storage {
namespace {

constexpr const char* account = "devstoreaccount1";

std::vector<std::string> google_command(std::uint16_t port) {
  static const std::string python = install_folder("torch_home") + "/bin/python";
  return {python, paths::source("tests/storage/google_server.py"), std::to_string(port)};
}

const std::string& azurite() {
  static const std::string program = install_folder("azurite_home") + "/node_modules/.bin/azurite-blob";
  return program;
}

}  // namespace

std::unique_ptr<CloudServer> CloudServer::start(const std::string& scheme) {
  std::unique_ptr<CloudServer> server{new CloudServer{scheme}};
  server->process_ = ServerProcess::start([&](std::uint16_t port) -> std::vector<std::string> {
    if (scheme == "gs") return google_command(port);
    return {azurite(),
            "--blobHost",
            "127.0.0.1",
            "--blobPort",
            std::to_string(port),
            "--location",
            server->folder_.path(),
            "--silent",
            "--skipApiVersionCheck",
            "--disableTelemetry"};
  });
  return server->process_ ? std::move(server) : nullptr;
}

void CloudServer::make_bucket(const std::string& name) const {
  httplib::Client client{"127.0.0.1", port()};
  const auto made =
      scheme_ == "gs"
          ? client.Post("/storage/v1/b?project=test", fmt::format(R"({{"name": "{}"}})", name), "application/json")
          : client.Put(fmt::format("/{}/{}?restype=container&{}", account, name, account_token));
  check(made && (made->status == 200 || made->status == 201), "the server makes a bucket");
}

std::map<std::string, std::string> CloudServer::variables_at(std::uint16_t port, const std::string& key) const {
  if (scheme_ == "gs") return {{"STORAGE_EMULATOR_HOST", fmt::format("127.0.0.1:{}", port)}};
  return {{"AZURE_STORAGE_ACCOUNT_NAME", account},
          {key.starts_with("sv=") ? "AZURE_STORAGE_SAS_TOKEN" : "AZURE_STORAGE_ACCOUNT_KEY", key},
          {"AZURE_STORAGE_BLOB_ENDPOINT", fmt::format("http://127.0.0.1:{}/{}", port, account)}};
}

}  // namespace trainyard::storage
