#include "tests/storage/versitygw.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace trainyard::storage {
namespace {

const std::string& program() {
  static const std::string path = install_folder("tools_home") + "/versitygw";
  return path;
}

}  // namespace

bool Versitygw::is_installed() {
  return std::filesystem::exists(program());
}

std::unique_ptr<Versitygw> Versitygw::start(const std::vector<std::string>& options) {
  std::unique_ptr<Versitygw> server{new Versitygw{options}};
  return server->process_ ? std::move(server) : nullptr;
}

Versitygw::Versitygw(const std::vector<std::string>& options) {
  const std::string buckets = folder_.path() + "/buckets";
  const std::string metadata = folder_.path() + "/metadata";
  std::filesystem::create_directories(buckets);
  std::filesystem::create_directories(metadata);
  folder_.write("users.json",
                fmt::format(R"({{"accessAccounts": {{"{0}": {{"access": "{0}", "secret": "{1}", "role": "admin"}}}}}})",
                            other_key_id, other_secret));
  process_ = ServerProcess::start([&](std::uint16_t port) {
    std::vector<std::string> arguments = {program(),         "--port",       fmt::format("127.0.0.1:{}", port),
                                          "--access",        access_key_id,  "--secret",
                                          secret_access_key, "--keep-alive", "--quiet",
                                          "--iam-dir",       folder_.path()};
    arguments.insert(arguments.end(), options.begin(), options.end());
    // Keeps metadata in files, since temporary folders may lack extended attributes.
    for (const std::string& last : {std::string{"posix"}, std::string{"--sidecar"}, metadata, buckets})
      arguments.push_back(last);
    return arguments;
  });
}

std::string Versitygw::endpoint() const {
  return fmt::format("http://127.0.0.1:{}", port());
}

void Versitygw::make_bucket(const std::string& name) {
  std::filesystem::create_directories(folder_.path() + "/buckets/" + name);
}

void Versitygw::remove_bucket(const std::string& name) {
  const std::filesystem::path bucket = folder_.path() + "/buckets/" + name;
  std::error_code error;
  // The server may add a file while the folder is removed.
  for (int tries = 0; tries < 100 && std::filesystem::exists(bucket); ++tries)
    std::filesystem::remove_all(bucket, error);
}

}  // namespace trainyard::storage
