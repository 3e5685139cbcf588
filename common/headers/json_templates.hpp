#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

// Templates that nearly every file would otherwise instantiate again, in more than half of a build's time. Only the
// precompiled headers include this file. Without it all files compile too, only slower.
namespace trainyard::headers {

using StringInput = nlohmann::detail::iterator_input_adapter<std::string::const_iterator>;
using CharacterInput = nlohmann::detail::iterator_input_adapter<const char*>;

}  // namespace trainyard::headers

extern template class nlohmann::basic_json<>;
extern template class std::vector<nlohmann::json>;
extern template class std::map<std::string, nlohmann::json, std::less<>>;
extern template class nlohmann::detail::serializer<nlohmann::json>;
extern template class nlohmann::detail::json_sax_dom_parser<nlohmann::json>;
extern template class nlohmann::detail::json_sax_dom_callback_parser<nlohmann::json>;
extern template class nlohmann::detail::lexer<nlohmann::json, trainyard::headers::StringInput>;
extern template class nlohmann::detail::lexer<nlohmann::json, trainyard::headers::CharacterInput>;
extern template class nlohmann::detail::parser<nlohmann::json, trainyard::headers::StringInput>;
extern template class nlohmann::detail::parser<nlohmann::json, trainyard::headers::CharacterInput>;
