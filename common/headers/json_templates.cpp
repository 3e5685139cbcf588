#include "common/headers/json_templates.hpp"

template class nlohmann::basic_json<>;
template class std::vector<nlohmann::json>;
template class std::map<std::string, nlohmann::json, std::less<>>;
template class nlohmann::detail::serializer<nlohmann::json>;
template class nlohmann::detail::json_sax_dom_parser<nlohmann::json>;
template class nlohmann::detail::json_sax_dom_callback_parser<nlohmann::json>;
template class nlohmann::detail::lexer<nlohmann::json, trainyard::headers::StringInput>;
template class nlohmann::detail::lexer<nlohmann::json, trainyard::headers::CharacterInput>;
template class nlohmann::detail::parser<nlohmann::json, trainyard::headers::StringInput>;
template class nlohmann::detail::parser<nlohmann::json, trainyard::headers::CharacterInput>;
