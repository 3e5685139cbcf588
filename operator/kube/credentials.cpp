#include "operator/kube/credentials.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "common/try.hpp"
#include "operator/kube/exec_plugin.hpp"

namespace trainyard::kube {

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
  auto token = read_file("the bearer token", file_);
  if (!token) return fail(ErrorKind::unauthorized, token.error().message);
  while (!token->empty() && (token->back() == '\n' || token->back() == '\r' || token->back() == ' ')) token->pop_back();
  if (token->empty())
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
    port.remove_prefix(1);
    const auto [end, failure] = std::from_chars(port.data(), port.data() + port.size(), port_number);
    if (failure != std::errc{} || end != port.data() + port.size() || port_number == 0)
      return refuse("has no number from 1 to 65535 as its port");
  }
  config.host = host;
  config.port = port_number;
  config.path_prefix = prefix;
  return {};
}

}  // namespace trainyard::kube
