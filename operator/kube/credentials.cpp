#include "operator/kube/credentials.hpp"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <utility>

#include "common/logging.hpp"
#include "common/text.hpp"
#include "common/try.hpp"
#include "operator/kube/exec_plugin.hpp"
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

TokenSource TokenSource::of_text(std::string token) {
  TokenSource source;
  source.text_ = std::move(token);
  return source;
}

TokenSource TokenSource::of_file(std::filesystem::path file) {
  TokenSource source;
  source.file_ = std::move(file);
  return source;
}

TokenSource TokenSource::of_plugin(std::shared_ptr<ExecPlugin> plugin) {
  TokenSource source;
  source.plugin_ = std::move(plugin);
  return source;
}

Result<std::string> TokenSource::token() const {
  if (plugin_) {
    auto credential = TRY(plugin_->credential());
    if (credential.token.empty())
      return fail(ErrorKind::unauthorized, "the exec plugin gave a token at first and now gives none; log in again");
    return std::move(credential.token);
  }
  if (file_.empty()) return text_;
  const auto text = read_file("the bearer token", file_);
  if (!text) return fail(ErrorKind::unauthorized, text.error().message);
  std::string token{trim(*text)};
  if (token.empty())
    return fail(ErrorKind::unauthorized, fmt::format("reading the bearer token from {}: it is empty", file_.string()));
  return token;
}

bool TokenSource::refuse(std::string_view token) const {
  if (plugin_) plugin_->refuse(token);
  return plugin_ != nullptr;
}

Result<std::string> read_file(std::string_view what, const std::filesystem::path& file) {
  std::ifstream stream{file, std::ios::binary};
  std::string text{std::istreambuf_iterator<char>{stream}, {}};
  if (!stream.is_open() || stream.bad()) {
    return fail(ErrorKind::io, fmt::format("reading {} from {}: {}", what, file.string(), std::strerror(errno)));
  }
  return text;
}

Result<void> set_server(ClientConfig& config, std::string_view url) {
  constexpr std::string_view scheme = "https://";
  const auto refuse = [&](std::string_view why) {
    return fail(ErrorKind::invalid, fmt::format("the API server's address \"{}\" {}", url, why));
  };
  if (url.substr(0, scheme.size()) != scheme) return refuse("does not begin with https://");
  std::string_view rest = url.substr(scheme.size());
  const std::size_t slash = rest.find('/');
  std::string_view authority = rest.substr(0, slash);
  std::string_view prefix = slash == std::string_view::npos ? std::string_view{} : rest.substr(slash);
  while (!prefix.empty() && prefix.back() == '/') prefix.remove_suffix(1);

  std::string_view host = authority;
  std::string_view port;
  if (!authority.empty() && authority.front() == '[') {
    const std::size_t bracket = authority.find(']');
    if (bracket == std::string_view::npos) return refuse("has no ] after its IPv6 address");
    host = authority.substr(1, bracket - 1);
    port = authority.substr(bracket + 1);
  } else if (const std::size_t colon = authority.find(':'); colon != std::string_view::npos) {
    host = authority.substr(0, colon);
    port = authority.substr(colon);
  }
  if (host.empty()) return refuse("names no host");
  std::uint16_t port_number = 443;
  if (!port.empty()) {
    if (port.front() != ':') return refuse("has no : between its IPv6 address and its port");
    port.remove_prefix(1);
    port_number = parse_number<std::uint16_t>(port).value_or(0);
    if (port_number == 0) return refuse("has no number from 1 to 65535 as its port");
  }
  config.host = host;
  config.port = port_number;
  config.path_prefix = prefix;
  return {};
}

}  // namespace trainyard::kube
