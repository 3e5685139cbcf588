#include "storage/server_words.hpp"

#include <algorithm>

namespace trainyard::storage {
namespace {

constexpr std::size_t bytes_max = 300;
constexpr std::string_view stars = "***";

void redact(std::string& text, std::string_view secret) {
  if (secret.empty()) return;
  for (std::size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at + stars.size()))
    text.replace(at, secret.size(), stars);
}

}  // namespace

std::string server_words(std::string text, std::initializer_list<std::string_view> secrets) {
  for (const std::string_view secret : secrets) redact(text, secret);
  if (text.size() > bytes_max) text.resize(bytes_max);
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  while (text.ends_with('.') || text.ends_with(' ')) text.pop_back();
  return text;
}

}  // namespace trainyard::storage
