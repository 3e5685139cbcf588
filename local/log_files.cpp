#include "local/log_files.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "api/contract.hpp"
#include "common/text.hpp"

namespace trainyard::local {
namespace {

using nlohmann::json;

std::string label_of(const json& pod, std::string_view label) {
  return pod.value("/metadata/labels"_json_pointer, json::object()).value(std::string{label}, "");
}

std::string_view ending(LogStream stream) {
  switch (stream) {
    case LogStream::both:
      return ".log";
    case LogStream::output:
      return ".stdout.log";
    case LogStream::error:
      return ".stderr.log";
  }
  return "";
}

}  // namespace

std::filesystem::path rank_log(const std::filesystem::path& folder, std::int64_t attempt, std::int64_t rank,
                               LogStream stream) {
  return folder / fmt::format("attempt-{}", attempt) / fmt::format("rank-{}{}", rank, ending(stream));
}

std::filesystem::path container_log(const std::filesystem::path& folder, const json& pod, std::string_view container,
                                    LogStream stream) {
  const std::string attempt = label_of(pod, contract::label_attempt);
  const std::string rank = label_of(pod, contract::label_rank);
  const json containers = pod.at("spec").value("containers", json::array());
  const bool is_worker = container == contract::worker_container ||
                         (containers.size() == 1 && containers[0].value("name", "") == container);
  const std::string side = is_worker ? "" : fmt::format(".{}", container);
  if (attempt.empty() || rank.empty()) {
    return folder / fmt::format("{}{}{}", pod.at("metadata").value("name", ""), side, ending(stream));
  }
  return folder / fmt::format("attempt-{}", attempt) / fmt::format("rank-{}{}{}", rank, side, ending(stream));
}

namespace {

constexpr std::size_t lines_max = 3;
constexpr std::size_t words_bytes_max = 1024;
/// After a traceback libraries may log some warnings as they end. If more lines follow, the program did not end there.
constexpr std::size_t lines_after_traceback_max = 5;
constexpr std::string_view traceback_mark = "Traceback (most recent call last):";
constexpr char escape = '\x1b';
constexpr char bell = '\x07';

bool is_printable(char c) {
  return static_cast<unsigned char>(c) >= 0x20 && c != '\x7f';
}

/// The length of the escape sequence at the beginning of `text` (ECMA-48: CSI, OSC, or a short one).
std::size_t escape_bytes(std::string_view text) {
  if (text.size() < 2) return text.size();
  if (text[1] == '[') {
    const auto end = std::ranges::find_if(text.substr(2), [](char c) { return c >= 0x40 && c <= 0x7e; });
    return std::min<std::size_t>(static_cast<std::size_t>(end - text.begin()) + 1, text.size());
  }
  if (text[1] == ']') {
    for (std::size_t at = 2; at < text.size(); ++at) {
      if (text[at] == bell) return at + 1;
      if (text[at] == escape)
        return text.substr(at).starts_with("\x1b\\") ? at + 2 : at;  // Another sequence ends it too.
    }
    return text.size();
  }
  // Intermediate bytes may come before the final byte: "(B".
  std::size_t at = 1;
  while (at < text.size() && text[at] >= 0x20 && text[at] <= 0x2f) ++at;
  return std::min(at + 1, text.size());
}

/// The last form of a line that was rewritten with carriage returns.
std::string_view last_form(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const auto begin = line.rfind('\r');
  return begin == std::string_view::npos ? line : line.substr(begin + 1);
}

std::string clean_line(std::string_view line) {
  std::string clean;
  for (line = last_form(line); !line.empty();) {
    std::size_t count = 1;
    if (line.front() == escape) {
      count = escape_bytes(line);
    } else if (line.front() == '\t') {
      clean += ' ';
    } else if (is_printable(line.front())) {
      const std::size_t bytes = utf8_character_bytes(line);
      clean += bytes == 0 ? std::string_view{"?"} : line.substr(0, bytes);
      count = std::max<std::size_t>(bytes, 1);
    }
    line.remove_prefix(count);
  }
  while (clean.ends_with(' ')) clean.pop_back();
  return clean;
}

/// The lines of `log` that are not empty once they are cleaned.
std::vector<std::string> clean_lines(std::string_view log) {
  std::vector<std::string> lines;
  while (!log.empty()) {
    const auto end = std::min(log.find('\n'), log.size());
    if (auto line = clean_line(log.substr(0, end)); !line.empty()) lines.push_back(std::move(line));
    log.remove_prefix(std::min(end + 1, log.size()));
  }
  return lines;
}

/// `line` without the "[rank0]: " that torch.distributed puts before each line of a traceback.
std::string_view without_rank(std::string_view line) {
  constexpr std::string_view begin = "[rank";
  if (!line.starts_with(begin)) return line;
  const auto end = line.find("]: ");
  const auto digits = line.substr(begin.size(), end == std::string_view::npos ? 0 : end - begin.size());
  const bool is_rank = !digits.empty() && std::ranges::all_of(digits, [](unsigned char c) { return std::isdigit(c); });
  return is_rank ? line.substr(end + 3) : line;
}

/// The exception of the traceback that ends the log.
std::optional<std::string> exception_of(const std::vector<std::string>& lines) {
  const auto mark = std::ranges::find_if(lines.rbegin(), lines.rend(),
                                         [](const auto& line) { return without_rank(line) == traceback_mark; });
  if (mark == lines.rend()) return std::nullopt;
  // The lines of the frames are indented; the exception is not.
  const auto exception = std::ranges::find_if(mark.base(), lines.end(),
                                              [](const auto& line) { return !without_rank(line).starts_with(' '); });
  if (exception == lines.end() || std::size_t(lines.end() - exception) > lines_after_traceback_max + 1)
    return std::nullopt;
  return std::string{without_rank(*exception)};
}

}  // namespace

std::string last_words(std::string_view log) {
  if (log.size() > last_words_bytes_max) {
    log.remove_prefix(log.size() - last_words_bytes_max);
    // The cut may split a character or an escape sequence, so the first line is dropped.
    if (const auto end = log.find('\n'); end != std::string_view::npos && end + 1 < log.size())
      log.remove_prefix(end + 1);
  }
  const std::vector<std::string> lines = clean_lines(log);
  if (auto exception = exception_of(lines)) return keep_end(*exception, words_bytes_max);
  std::string words;
  for (std::size_t index = lines.size() - std::min(lines.size(), lines_max); index < lines.size(); ++index) {
    words += (words.empty() ? "" : " | ") + lines[index].substr(lines[index].find_first_not_of(' '));
  }
  return keep_end(words, words_bytes_max);
}

}  // namespace trainyard::local
