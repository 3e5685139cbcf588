#include "api/validation/cel_syntax.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <initializer_list>
#include <utility>

namespace trainyard::api::cel {
namespace {

using NodePointer = std::unique_ptr<Node>;

struct Refused {
  std::string sentence;
};

NodePointer make_node(NodeKind kind, std::string text = {}) {
  auto node = std::make_unique<Node>();
  node->kind = kind;
  node->text = std::move(text);
  return node;
}

bool is_word_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool is_word_part(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// A recursive-descent parser with one function for each level of precedence, from the loosest to the tightest.
class Parser {
 public:
  explicit Parser(std::string_view text) : rest_{text} { skip_space(); }

  NodePointer parse_all() {
    NodePointer node = parse_conditional();
    if (!rest_.empty()) refuse("the end");
    return node;
  }

 private:
  [[noreturn]] void refuse(std::string_view expected) const {
    throw Refused{fmt::format("expected {} at '{}'", expected, rest_.substr(0, 20))};
  }

  void skip_space() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.front())) != 0) rest_.remove_prefix(1);
  }

  bool take(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    const bool is_word = is_word_start(token.front());
    if (is_word && rest_.size() > token.size() && is_word_part(rest_[token.size()])) return false;
    rest_.remove_prefix(token.size());
    skip_space();
    return true;
  }

  void demand(std::string_view token) {
    if (!take(token)) refuse(token);
  }

  std::string take_word() {
    if (rest_.empty() || !is_word_start(rest_.front())) refuse("a name");
    const auto end = std::ranges::find_if_not(rest_, is_word_part);
    std::string word{rest_.begin(), end};
    rest_.remove_prefix(word.size());
    skip_space();
    return word;
  }

  NodePointer parse_conditional() {
    NodePointer condition = parse_binary({"||"}, [this] { return parse_and(); });
    if (!take("?")) return condition;
    NodePointer node = make_node(NodeKind::conditional);
    node->children.push_back(std::move(condition));
    node->children.push_back(parse_conditional());
    demand(":");
    node->children.push_back(parse_conditional());
    return node;
  }

  NodePointer parse_and() {
    return parse_binary({"&&"}, [this] { return parse_relation(); });
  }

  NodePointer parse_relation() {
    // Longer operators come first, because "<=" also begins with "<".
    return parse_binary({"==", "!=", "<=", ">=", "<", ">", "in"}, [this] { return parse_sum(); });
  }

  NodePointer parse_sum() {
    return parse_binary({"+"}, [this] { return parse_remainder(); });
  }

  NodePointer parse_remainder() {
    return parse_binary({"%"}, [this] { return parse_unary(); });
  }

  template <typename Operand>
  NodePointer parse_binary(std::initializer_list<std::string_view> operators, Operand operand) {
    NodePointer left = operand();
    while (true) {
      const auto* const found = std::ranges::find_if(operators, [this](std::string_view op) { return take(op); });
      if (found == operators.end()) return left;
      NodePointer node = make_node(NodeKind::binary, std::string{*found});
      node->children.push_back(std::move(left));
      node->children.push_back(operand());
      left = std::move(node);
    }
  }

  NodePointer parse_unary() {
    if (!take("!")) return parse_member();
    NodePointer node = make_node(NodeKind::negation);
    node->children.push_back(parse_unary());
    return node;
  }

  NodePointer parse_member() {
    NodePointer node = parse_primary();
    while (true) {
      if (take(".")) {
        std::string word = take_word();
        const bool is_call = take("(");
        NodePointer next = make_node(is_call ? NodeKind::method : NodeKind::select, std::move(word));
        next->children.push_back(std::move(node));
        if (is_call) parse_arguments(*next, ")");
        node = next->text == "all" || next->text == "exists" ? as_quantifier(std::move(next)) : std::move(next);
      } else if (take("[")) {
        NodePointer next = make_node(NodeKind::index);
        next->children.push_back(std::move(node));
        next->children.push_back(parse_conditional());
        demand("]");
        node = std::move(next);
      } else {
        return node;
      }
    }
  }

  void parse_arguments(Node& call, std::string_view end) {
    if (take(end)) return;
    do call.children.push_back(parse_conditional());
    while (take(","));
    demand(end);
  }

  NodePointer as_quantifier(NodePointer call) const {
    if (call->kind != NodeKind::method || call->children.size() != 3 || call->children[1]->kind != NodeKind::name) {
      refuse(fmt::format("{}(name, condition) before this", call->text));
    }
    NodePointer node = make_node(NodeKind::quantifier, call->text);
    node->variable = call->children[1]->text;
    node->children.push_back(std::move(call->children[0]));
    node->children.push_back(std::move(call->children[2]));
    return node;
  }

  NodePointer parse_primary() {
    if (take("(")) {
      NodePointer node = parse_conditional();
      demand(")");
      return node;
    }
    if (take("[")) {
      NodePointer node = make_node(NodeKind::list);
      parse_arguments(*node, "]");
      return node;
    }
    if (rest_.starts_with('\'')) return parse_string();
    if (!rest_.empty() && std::isdigit(static_cast<unsigned char>(rest_.front())) != 0) return parse_integer();
    return parse_word();
  }

  NodePointer parse_string() {
    const std::size_t end = rest_.find('\'', 1);
    if (end == std::string_view::npos) refuse("a string with an end");
    NodePointer node = make_node(NodeKind::literal);
    node->value = std::string{rest_.substr(1, end - 1)};
    // Refuses escapes, which this parser does not know: no rule needs one.
    if (node->value.get_ref<const std::string&>().find('\\') != std::string::npos) refuse("a string without '\\'");
    rest_.remove_prefix(end + 1);
    skip_space();
    return node;
  }

  NodePointer parse_integer() {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
    if (error != std::errc{}) refuse("an integer");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    skip_space();
    NodePointer node = make_node(NodeKind::literal);
    node->value = number;
    return node;
  }

  NodePointer parse_word() {
    std::string word = take_word();
    if (word == "true" || word == "false") {
      NodePointer node = make_node(NodeKind::literal);
      node->value = word == "true";
      return node;
    }
    if (!take("(")) return make_node(NodeKind::name, std::move(word));
    NodePointer node = make_node(NodeKind::function, std::move(word));
    parse_arguments(*node, ")");
    if (node->text != "has") return node;
    if (node->children.size() != 1 || node->children[0]->kind != NodeKind::select) refuse("has(a.b) before this");
    node->children[0]->kind = NodeKind::has;
    return std::move(node->children[0]);
  }

  std::string_view rest_;
};

}  // namespace

Result<std::unique_ptr<Node>> parse(std::string_view expression) {
  try {
    return Parser{expression}.parse_all();
  } catch (const Refused& error) {
    return fail(ErrorKind::invalid, fmt::format("CEL '{}': {}", expression, error.sentence));
  }
}

}  // namespace trainyard::api::cel
