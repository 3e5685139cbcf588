#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "operator/kube/api.hpp"

namespace trainyard::kube {

/// Decodes the body of a watch, cut anywhere, into events. Each line of it is one JSON object. One thread at a time.
class WatchDecoder {
 public:
  struct Decoded {
    std::vector<WatchEvent> events;  ///< In order; handle them before `error`.
    std::optional<Error>
        error;  ///< Ends the stream: gone (an ERROR event with 410), the kind of another Status, or corrupt.
  };

  /// `tried` begins the message of an error. A line longer than `line_bytes_max` is corrupt, because no object of an
  /// API server is that large.
  explicit WatchDecoder(std::string tried, std::size_t line_bytes_max = std::size_t{16} << 20);

  [[nodiscard]] Decoded push(std::string_view bytes);

  /// True when the bytes so far end in the middle of a line. If the stream ends there, that event is lost and must be
  /// asked for again.
  [[nodiscard]] bool has_torn_line() const { return !partial_line_.empty(); }

 private:
  void decode_line(std::string_view line, Decoded& decoded) const;

  std::string tried_;
  std::size_t line_bytes_max_;
  std::string partial_line_;
};

}  // namespace trainyard::kube
