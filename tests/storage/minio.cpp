#include "tests/storage/minio.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "common/check.hpp"
#include "storage/http_client.hpp"
#include "storage/s3_client.hpp"
#include "tests/storage/given_credentials.hpp"

namespace trainyard::storage {
namespace {

constexpr const char* minio_region = "us-east-1";

const std::string& minio_program() {
  static const std::string path = install_folder("minio_home") + "/minio";
  return path;
}

}  // namespace

bool Minio::is_installed() {
  return std::filesystem::exists(minio_program());
}

std::unique_ptr<Minio> Minio::start() {
  std::unique_ptr<Minio> server{new Minio};
  return server->process_ && server->is_ready() ? std::move(server) : nullptr;
}

Minio::Minio() {
  process_ = ServerProcess::start([&](std::uint16_t port) -> std::vector<std::string> {
    return {"/usr/bin/env",
            fmt::format("MINIO_ROOT_USER={}", access_key_id),
            fmt::format("MINIO_ROOT_PASSWORD={}", secret_access_key),
            fmt::format("MINIO_SITE_REGION={}", minio_region),
            "MINIO_BROWSER=off",
            "MINIO_UPDATE=off",
            minio_program(),
            "server",
            "--quiet",
            "--address",
            fmt::format("127.0.0.1:{}", port),
            "--certs-dir",
            folder_.path() + "/certificates",
            folder_.path() + "/data"};
  });
}

// MinIO listens before it serves, and answers early requests with a Retry-After of a minute.
bool Minio::is_ready() const {
  HttpClient client{{.patience = std::chrono::minutes{1},
                     .first_patience = std::chrono::minutes{1},
                     .backoff = {.initial = std::chrono::milliseconds{10}, .max = std::chrono::milliseconds{50}}}};
  const HttpCall look{.doing = "look whether MinIO serves",
                      .make = [&]() -> Result<HttpRequest> {
                        return HttpRequest{.method = "GET",
                                           .url = fmt::format("http://127.0.0.1:{}/minio/health/cluster", port()),
                                           .is_direct = true};
                      },
                      .accept = [](const HttpReply& reply) -> Result<void> {
                        if (reply.status == 200) return {};
                        return fail(ErrorKind::unavailable, fmt::format("it answered {}", reply.status));
                      }};
  return client.perform({&look, 1}, 1).has_value();
}

void Minio::make_bucket(const std::string& bucket) {
  S3Client client{{.bucket = bucket,
                   .prefix = "",
                   .region = minio_region,
                   .scheme = "http",
                   .host = fmt::format("127.0.0.1:{}", port()),
                   .path_style = true,
                   .credentials = given_credentials({access_key_id, secret_access_key, ""}),
                   .ca_bundle = ""},
                  {}};
  const auto made = client.send("make a bucket", {.method = "PUT"});
  check(made.has_value(), "MinIO makes a bucket");
}

}  // namespace trainyard::storage
