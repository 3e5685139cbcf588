#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <stdexcept>

#include "include/trainyard/data.hpp"

namespace trainyard {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TensorTree a_tree() {
  return {{"mask", torch::ones({2})},
          {"boxes", TensorTree::list({torch::zeros({3, 4}), torch::zeros({1, 4})})},
          {"views", {{"left", torch::full({1}, 5)}}}};
}

TEST(TensorTree, FindsItsPartsByNameAndPlace) {
  const TensorTree tree = a_tree();
  EXPECT_EQ(tree.size(), 3U);
  EXPECT_TRUE(tree.contains("mask"));
  EXPECT_FALSE(tree.contains("masks"));
  EXPECT_FALSE(tree.at("boxes").contains("")) << "the trees of a list have no names";
  EXPECT_EQ(tree.at("boxes").at(1).tensor().size(0), 1);
  EXPECT_EQ(tree.at("views").at("left").tensor().item<int>(), 5);
  EXPECT_FALSE(TensorTree{}.tensor().defined());
}

TEST(TensorTree, NamesWhatThereIsWhereAPartIsMissing) {
  const TensorTree tree = a_tree();
  EXPECT_THAT([&] { (void)tree.at("masks"); },
              ThrowsMessage<std::out_of_range>("the batch has no 'masks' here (there is: mask, boxes, views)"));
  EXPECT_THAT([&] { (void)tree.at("boxes").at(2); },
              ThrowsMessage<std::out_of_range>("the batch has no part 2 here: it has 2"));
  EXPECT_THAT([&] { (void)tree.at("boxes").at(""); }, ThrowsMessage<std::out_of_range>(HasSubstr("no ''")));
  EXPECT_THAT([&] { (void)tree.tensor(); },
              ThrowsMessage<std::invalid_argument>("this is a tree of 3 parts, not a tensor"));
}

TEST(TensorTree, TakesNewPartsOnlyByName) {
  TensorTree tree = a_tree();
  tree.set("mask", torch::zeros({7}));
  EXPECT_EQ(tree.size(), 3U) << "a part of the same name is replaced";
  EXPECT_EQ(tree.at("mask").tensor().size(0), 7);
  EXPECT_THROW(tree.set("", torch::zeros({1})), std::invalid_argument);
  TensorTree leaf{torch::zeros({1})};
  EXPECT_THROW(leaf.set("part", torch::zeros({1})), std::invalid_argument);
  TensorTree list = TensorTree::list({torch::zeros({1})});
  EXPECT_THROW(list.set("part", torch::zeros({1})), std::invalid_argument);
}

TEST(Batch, IsDividedByTensorsFirstDimensionAndTheTreesOfLists) {
  const Batch batch{.inputs = torch::arange(6).view({3, 2}),
                    .targets = {},
                    .ids = torch::arange(3),
                    .named = {{"mask", torch::arange(3)},
                              {"boxes", TensorTree::list({torch::zeros({3, 4}), torch::zeros({1, 4}), TensorTree{}})},
                              {"none", TensorTree{}},
                              {"views", {{"left", torch::arange(3)}}}}};
  const Batch part = batch.samples(1, 3);
  EXPECT_EQ(part.size(), 2);
  EXPECT_TRUE(torch::equal(part.inputs, torch::arange(2, 6).view({2, 2})));
  EXPECT_FALSE(part.targets.defined());
  EXPECT_TRUE(torch::equal(part.named.at("mask").tensor(), torch::arange(1, 3)));
  EXPECT_EQ(part.named.at("boxes").size(), 2U);
  EXPECT_EQ(part.named.at("boxes").at(0).tensor().size(0), 1);
  EXPECT_TRUE(torch::equal(part.named.at("views").at("left").tensor(), torch::arange(1, 3)));
  EXPECT_TRUE(part.named.contains("none"));
}

TEST(Batch, RefusesToDivideWhatHasNotOneOfItForEachSample) {
  Batch batch{.inputs = torch::zeros({3, 2}), .targets = torch::zeros({}), .ids = torch::arange(3)};
  EXPECT_THAT([&] { (void)batch.samples(0, 1); },
              ThrowsMessage<std::invalid_argument>(
                  "a batch of 3 samples cannot be divided: it has a tensor of shape [], whose first dimension is not "
                  "the sample"));
  batch.targets = torch::zeros({2});
  EXPECT_THAT([&] { (void)batch.samples(0, 1); }, ThrowsMessage<std::invalid_argument>(HasSubstr("of shape [2]")));
  batch.targets = torch::Tensor{};
  batch.named = {{"boxes", TensorTree::list({torch::zeros({1})})}};
  EXPECT_THAT([&] { (void)batch.samples(0, 1); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("it has a list of 1 trees, and not one for each sample")));
}

TEST(Batch, MovesEveryTensorButTheIds) {
  const torch::Device meta{torch::kMeta};
  Batch batch{.inputs = torch::rand({2, 3}), .targets = {}, .ids = torch::arange(2), .named = a_tree()};
  batch.named.set("none", TensorTree{});
  const Batch moved = batch.on(meta);
  EXPECT_TRUE(moved.inputs.is_meta());
  EXPECT_FALSE(moved.targets.defined());
  EXPECT_TRUE(moved.ids.is_cpu());
  EXPECT_TRUE(moved.named.at("mask").tensor().is_meta());
  EXPECT_TRUE(moved.named.at("boxes").at(0).tensor().is_meta());
  EXPECT_TRUE(moved.named.at("views").at("left").tensor().is_meta());
  EXPECT_FALSE(moved.named.at("none").tensor().defined());
  EXPECT_EQ(batch.on(torch::kCPU).inputs.data_ptr(), batch.inputs.data_ptr()) << "nothing is copied";
}

}  // namespace
}  // namespace trainyard
