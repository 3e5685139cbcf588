#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The part of XML that the replies of S3 and Azure need. Names are compared without namespaces; attributes, comments
/// and CDATA do not occur in those replies.
namespace trainyard::storage::xml {

/// The content of the first element `name` in `text`, with its entities; empty when there is none.
[[nodiscard]] std::optional<std::string_view> element(std::string_view text, std::string_view name);

/// The contents of all elements `name` in `text`, in order, without those inside another element `name`.
[[nodiscard]] std::vector<std::string_view> elements(std::string_view text, std::string_view name);

/// `content` with its entities replaced.
[[nodiscard]] std::string unescaped(std::string_view content);

/// `text` escaped for an element's content.
[[nodiscard]] std::string escaped(std::string_view text);

/// unescaped(element()), empty when there is none.
[[nodiscard]] std::string text_of(std::string_view text, std::string_view name);

}  // namespace trainyard::storage::xml
