#include "storage/xml.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

namespace trainyard::storage::xml {
namespace {

constexpr std::array<std::pair<std::string_view, char>, 5> entities = {
    {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}}};

// The position of the '<' with which the element `name` begins in `text`; npos when there is none.
std::size_t find_tag(std::string_view text, std::string_view name, std::size_t from) {
  for (std::size_t at = text.find('<', from); at != std::string_view::npos; at = text.find('<', at + 1)) {
    const std::string_view rest = text.substr(at + 1);
    if (!rest.starts_with(name) || rest.size() == name.size()) continue;
    const char after = rest[name.size()];
    if (after == '>' || after == ' ' || after == '/' || after == '\n' || after == '\t' || after == '\r') return at;
  }
  return std::string_view::npos;
}

struct Found {
  std::string_view content;
  std::size_t end = 0;  // After the closing tag.
};

std::optional<Found> find_element(std::string_view text, std::string_view name, std::size_t from) {
  const std::size_t tag = find_tag(text, name, from);
  if (tag == std::string_view::npos) return std::nullopt;
  const std::size_t tag_end = text.find('>', tag);
  if (tag_end == std::string_view::npos) return std::nullopt;
  if (text[tag_end - 1] == '/') return Found{.content = {}, .end = tag_end + 1};
  const std::string closing = "</" + std::string{name} + ">";
  const std::size_t end = text.find(closing, tag_end);
  if (end == std::string_view::npos) return std::nullopt;
  return Found{.content = text.substr(tag_end + 1, end - tag_end - 1), .end = end + closing.size()};
}

void append_utf8(std::string& text, std::uint32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0 | code >> 6);
    text += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    text += static_cast<char>(0xe0 | code >> 12);
    text += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    text += static_cast<char>(0xf0 | (code >> 18 & 0x07));
    text += static_cast<char>(0x80 | (code >> 12 & 0x3f));
    text += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (code & 0x3f));
  }
}

// Appends the character of `entity` (without '&' and ';'); false when it is unknown.
bool append_entity(std::string& text, std::string_view entity) {
  for (const auto& [name, character] : entities) {
    if (entity != name) continue;
    text += character;
    return true;
  }
  if (!entity.starts_with('#')) return false;
  entity.remove_prefix(1);
  const int base = entity.starts_with('x') ? 16 : 10;
  if (base == 16) entity.remove_prefix(1);
  std::uint32_t code = 0;
  const auto [end, error] = std::from_chars(entity.data(), entity.data() + entity.size(), code, base);
  if (error != std::errc{} || end != entity.data() + entity.size()) return false;
  append_utf8(text, code);
  return true;
}

}  // namespace

std::optional<std::string_view> element(std::string_view text, std::string_view name) {
  const auto found = find_element(text, name, 0);
  return found ? std::optional{found->content} : std::nullopt;
}

std::vector<std::string_view> elements(std::string_view text, std::string_view name) {
  std::vector<std::string_view> contents;
  for (auto found = find_element(text, name, 0); found; found = find_element(text, name, found->end)) {
    contents.push_back(found->content);
  }
  return contents;
}

std::string unescaped(std::string_view content) {
  std::string text;
  while (!content.empty()) {
    const std::size_t begin = content.find('&');
    text += content.substr(0, begin);
    if (begin == std::string_view::npos) break;
    content.remove_prefix(begin);
    const std::size_t end = content.find(';');
    if (end == std::string_view::npos || !append_entity(text, content.substr(1, end - 1))) {
      text += '&';
      content.remove_prefix(1);
    } else {
      content.remove_prefix(end + 1);
    }
  }
  return text;
}

std::string escaped(std::string_view text) {
  std::string content;
  for (const char c : text) {
    bool is_entity = false;
    for (const auto& [name, character] : entities) {
      if (c != character) continue;
      content += '&';
      content += name;
      content += ';';
      is_entity = true;
    }
    if (!is_entity) content += c;
  }
  return content;
}

std::string text_of(std::string_view text, std::string_view name) {
  const auto content = element(text, name);
  return content ? unescaped(*content) : std::string{};
}

}  // namespace trainyard::storage::xml
