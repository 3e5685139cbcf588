#include "operator/kube/authorities.hpp"

#include <mutex>
#include <utility>

#include "common/logging.hpp"
#include "common/try.hpp"
#include "operator/kube/credentials.hpp"
#include "operator/kube/tls.hpp"

namespace trainyard::kube {

struct AuthoritySource::File {
  std::filesystem::path path;
  std::mutex mutex;         // guards what follows
  std::string pem;          // last usable text
  std::string told_reason;  // reason in the last warning
};

AuthoritySource AuthoritySource::of_text(std::string pem) {
  AuthoritySource source;
  source.text_ = std::move(pem);
  return source;
}

Result<AuthoritySource> AuthoritySource::of_file(const std::filesystem::path& path) {
  auto pem = TRY(read_file("the cluster's CA", path));
  AuthoritySource source;
  source.file_ = std::make_shared<File>();
  source.file_->path = path;
  source.file_->pem = std::move(pem);
  return source;
}

std::string AuthoritySource::pem() const {
  if (!file_) return text_;
  const auto renewed = read_file("the cluster's CA", file_->path);
  const std::scoped_lock lock{file_->mutex};
  if (renewed && *renewed == file_->pem) return file_->pem;
  const auto usable = renewed ? check_authorities(*renewed) : Result<void>{tl::unexpected(renewed.error())};
  if (usable) {
    file_->pem = *renewed;
    file_->told_reason.clear();
    logging::info("the cluster's CA has changed", {{"file", file_->path.string()}});
  } else if (file_->told_reason != usable.error().message) {
    file_->told_reason = usable.error().message;
    logging::warn("the cluster's CA cannot be renewed: the last one is kept",
                  {{"file", file_->path.string()}, {"error", usable.error().message}});
  }
  return file_->pem;
}

}  // namespace trainyard::kube
