#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "include/trainyard/data.hpp"

namespace trainyard {

TensorTree::TensorTree(std::initializer_list<std::pair<std::string, TensorTree>> named) {
  for (const auto& [name, tree] : named) set(name, tree);
}

TensorTree TensorTree::list(std::vector<TensorTree> trees) {
  TensorTree tree;
  for (TensorTree& child : trees) tree.children_.emplace_back(std::string{}, std::move(child));
  return tree;
}

const torch::Tensor& TensorTree::tensor() const {
  if (!children_.empty())
    throw std::invalid_argument{fmt::format("this is a tree of {} parts, not a tensor", children_.size())};
  return tensor_;
}

const TensorTree& TensorTree::at(std::string_view name) const {
  std::vector<std::string_view> names;
  for (const auto& [child_name, child] : children_) {
    if (child_name == name && !name.empty()) return child;
    names.push_back(child_name);
  }
  throw std::out_of_range{fmt::format("the batch has no '{}' here (there is: {})", name, fmt::join(names, ", "))};
}

const TensorTree& TensorTree::at(std::size_t index) const {
  if (index < children_.size()) return children_[index].second;
  throw std::out_of_range{fmt::format("the batch has no part {} here: it has {}", index, children_.size())};
}

bool TensorTree::contains(std::string_view name) const {
  // The trees of a list have empty names.
  return !name.empty() &&
         std::any_of(children_.begin(), children_.end(), [&](const auto& child) { return child.first == name; });
}

void TensorTree::set(std::string name, TensorTree tree) {
  const bool is_list = !children_.empty() && children_.front().first.empty();
  if (name.empty()) throw std::invalid_argument{"a tree's part needs a name"};
  if (tensor_.defined() || is_list)
    throw std::invalid_argument{fmt::format("'{}' cannot be added to a tensor or a list", name)};
  for (auto& [child_name, child] : children_) {
    if (child_name == name) {
      child = std::move(tree);
      return;
    }
  }
  children_.emplace_back(std::move(name), std::move(tree));
}

TensorTree TensorTree::map(const std::function<torch::Tensor(const torch::Tensor&)>& change) const {
  TensorTree changed;
  if (tensor_.defined()) changed.tensor_ = change(tensor_);
  for (const auto& [name, child] : children_) changed.children_.emplace_back(name, child.map(change));
  return changed;
}

TensorTree TensorTree::samples(std::int64_t begin, std::int64_t end, std::int64_t size) const {
  if (tensor_.defined() && (tensor_.dim() == 0 || tensor_.size(0) != size)) {
    throw std::invalid_argument{
        fmt::format("a batch of {} samples cannot be divided: it has a tensor of shape [{}], whose first dimension is "
                    "not the sample",
                    size, fmt::join(tensor_.sizes(), ", "))};
  }
  TensorTree part;
  if (tensor_.defined()) part.tensor_ = tensor_.slice(0, begin, end);
  const bool is_list = !children_.empty() && children_.front().first.empty();
  if (is_list && children_.size() != static_cast<std::size_t>(size)) {
    throw std::invalid_argument{
        fmt::format("a batch of {} samples cannot be divided: it has a list of {} trees, and not one for each sample",
                    size, children_.size())};
  }
  for (std::size_t place = 0; place < children_.size(); ++place) {
    const auto& [name, child] = children_[place];
    if (!is_list) {
      part.children_.emplace_back(name, child.samples(begin, end, size));
    } else if (static_cast<std::int64_t>(place) >= begin && static_cast<std::int64_t>(place) < end) {
      part.children_.push_back(children_[place]);
    }
  }
  return part;
}

Batch Batch::samples(std::int64_t begin, std::int64_t end) const {
  const auto part = [&](const torch::Tensor& tensor) {
    return TensorTree{tensor}.samples(begin, end, size()).tensor();
  };
  return {.inputs = part(inputs),
          .targets = part(targets),
          .ids = ids.slice(0, begin, end),
          .named = named.samples(begin, end, size())};
}

Batch Batch::on(torch::Device device) const {
  const auto move = [&](const torch::Tensor& tensor) {
    // A copy from pinned memory need not be waited for: its users are queued after it on the stream.
    return tensor.defined() ? tensor.to(device, /*non_blocking=*/tensor.is_cpu() && tensor.is_pinned()) : tensor;
  };
  return {.inputs = move(inputs), .targets = move(targets), .ids = ids, .named = named.map(move)};
}

}  // namespace trainyard
