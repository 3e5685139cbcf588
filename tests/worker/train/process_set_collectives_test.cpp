#include "worker/train/process_set_collectives.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "tests/worker/fakes/broken_group.hpp"
#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/train/with_process_sets.hpp"
#include "worker/strategy/exchange_failed.hpp"
#include "worker/train/tensor_exchange.hpp"

namespace trainyard::train {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Sizes = std::vector<std::int64_t>;

const RanksBySet overlapping{{"ends", {2, 0}}, {"last two", {1, 2}}, {"middle", {1}}, {"all", {0, 1, 2}}};

/// Numbers of any dtype as doubles, of which torch::equal() knows each.
torch::Tensor in_doubles(const torch::Tensor& tensor) {
  return (tensor.is_complex() ? torch::view_as_real(tensor) : tensor).to(torch::kDouble);
}

/// 0 to 5 plus `more`, [2, 3].
torch::Tensor numbers(torch::ScalarType type, std::int64_t more) {
  return (torch::arange(6, torch::kLong).reshape({2, 3}) + more).to(type);
}

TEST(ProcessSet, KnowsItsRanksOnEachRank) {
  with_process_sets(3, overlapping, [](const ProcessSets& sets, std::int64_t rank) {
    const ProcessSet& ends = sets.at("ends");
    EXPECT_EQ(ends.ranks(), (Sizes{0, 2}));
    EXPECT_EQ(ends.size(), 2);
    EXPECT_EQ(ends.includes_this_rank(), rank != 1);
    if (rank == 1) {
      EXPECT_THROW(std::ignore = ends.rank(), std::logic_error);
    } else {
      EXPECT_EQ(ends.rank(), rank / 2);
    }
    if (rank > 0) {
      EXPECT_EQ(sets.at("last two").rank(), rank - 1);
    }
  });
}

TEST(ProcessSet, ReducesEachDtypeOverItsMembersAlone) {
  with_process_sets(3, overlapping, [](const ProcessSets& sets, std::int64_t rank) {
    for (const auto type : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16, torch::kFloat8_e4m3fn,
                            torch::kChar, torch::kByte, torch::kShort, torch::kInt, torch::kLong, torch::kUInt16,
                            torch::kUInt32, torch::kComplexFloat, torch::kComplexDouble, torch::kComplexHalf}) {
      for (const std::string name : {"ends", "last two", "middle", "all"}) {
        const ProcessSet& set = sets.at(name);
        if (!set.includes_this_rank()) continue;
        const torch::Tensor own = numbers(type, rank);
        const auto expect = [&](ReduceOp op, const torch::Tensor& expected) {
          const torch::Tensor reduced = set.all_reduce(own, op);
          EXPECT_EQ(reduced.scalar_type(), type);
          EXPECT_TRUE(torch::equal(in_doubles(reduced), in_doubles(expected.to(type)))) << type << name << reduced;
          EXPECT_TRUE(torch::equal(in_doubles(own), in_doubles(numbers(type, rank)))) << "the argument has changed";
        };
        std::int64_t sum = 0;
        for (const std::int64_t member : set.ranks()) sum += member;
        expect(ReduceOp::sum, numbers(torch::kLong, 0) * set.size() + sum);
        if (own.is_complex()) {
          expect(ReduceOp::mean, (numbers(torch::kDouble, 0) * set.size() + sum) / set.size());
          continue;
        }
        expect(ReduceOp::min, numbers(type, set.ranks().front()));
        expect(ReduceOp::max, numbers(type, set.ranks().back()));
        if (own.is_floating_point())
          expect(ReduceOp::mean,
                 numbers(torch::kDouble, 0) + static_cast<double>(sum) / static_cast<double>(set.size()));
      }
    }
  });
}

TEST(ProcessSet, RoundsShortFloatsOnceAndLetsIntegersWrap) {
  with_process_sets(3, overlapping, [](const ProcessSets& sets, std::int64_t rank) {
    const ProcessSet& all = sets.at("all");
    EXPECT_EQ(all.all_reduce(torch::full({2}, 60000.0, torch::kHalf))[1].item<double>(), 60000.0) << "and not infinite";
    EXPECT_EQ(all.all_reduce(torch::full({1}, 1.0 + 0.0078125, torch::kBFloat16)).item<double>(), 1.0078125);
    EXPECT_EQ(all.all_reduce(torch::full({1}, 100, torch::kByte), ReduceOp::sum).item<std::int64_t>(), 300 - 256);
    EXPECT_EQ(all.all_reduce(torch::full({1}, 20000, torch::kShort), ReduceOp::sum).item<std::int64_t>(),
              60000 - 65536);
    const torch::Tensor is_first = torch::tensor(rank == 0);
    EXPECT_TRUE(all.all_reduce(is_first, ReduceOp::max).item<bool>());
    EXPECT_FALSE(all.all_reduce(is_first, ReduceOp::min).item<bool>());
    EXPECT_EQ(all.all_reduce(is_first, ReduceOp::min).scalar_type(), torch::kBool);
  });
}

TEST(ProcessSet, RefusesReductionsThatADtypeDoesNotHave) {
  with_process_sets(3, overlapping, [](const ProcessSets& sets, std::int64_t rank) {
    struct Row {
      torch::Tensor tensor;
      ReduceOp op;
      std::string words;
    };
    const Row rows[] = {
        {torch::ones({2}, torch::kLong), ReduceOp::mean, "mean of Long: the mean of integers is no integer"},
        {torch::ones({2}, torch::kBool), ReduceOp::mean, "mean of Bool: bool has min (all members) and max"},
        {torch::ones({2}, torch::kBool), ReduceOp::sum, "sum of Bool: bool has min (all members) and max"},
        {torch::ones({2}, torch::kComplexFloat), ReduceOp::max, "max of ComplexFloat: complex numbers have no order"},
        {torch::empty({2}, torch::kUInt64), ReduceOp::sum, "sum of UInt64: this dtype cannot be reduced"},
        {torch::Tensor{}, ReduceOp::mean, "takes a dense tensor, and this one is undefined"},
        {torch::eye(3).to_sparse(), ReduceOp::mean, "takes a dense tensor, and this one is not dense"},
    };
    for (const Row& row : rows) {
      for (const std::string name : {"ends", "middle"}) {
        if (!sets.at(name).includes_this_rank()) continue;
        EXPECT_THAT([&] { std::ignore = sets.at(name).all_reduce(row.tensor, row.op); },
                    ThrowsMessage<std::invalid_argument>(HasSubstr(row.words)))
            << rank;
      }
    }
  });
}

TEST(ProcessSet, GathersInTheOrderOfItsRanks) {
  with_process_sets(3, overlapping, [](const ProcessSets& sets, std::int64_t rank) {
    for (const auto type : {torch::kFloat, torch::kHalf, torch::kBFloat16, torch::kLong, torch::kUInt64,
                            torch::kComplexDouble, torch::kFloat8_e5m2}) {
      for (const std::string name : {"ends", "last two", "middle", "all"}) {
        const ProcessSet& set = sets.at(name);
        if (!set.includes_this_rank()) continue;
        const torch::Tensor all = set.all_gather(numbers(type, rank));
        ASSERT_EQ(all.sizes(), (Sizes{set.size(), 2, 3}));
        EXPECT_EQ(all.scalar_type(), type);
        for (std::int64_t place = 0; place < set.size(); ++place) {
          const std::int64_t member = set.ranks()[static_cast<std::size_t>(place)];
          EXPECT_TRUE(torch::equal(in_doubles(all[place]), in_doubles(numbers(type, member)))) << type << name;
        }
      }
    }
    const torch::Tensor is_last = sets.at("all").all_gather(torch::tensor(rank == 2));
    EXPECT_EQ(is_last.sizes(), Sizes{3});
    EXPECT_TRUE(is_last[2].item<bool>());
    EXPECT_FALSE(is_last[1].item<bool>());
  });
}

TEST(ProcessSet, BroadcastsFromTheRankOfTheJob) {
  with_process_sets(3, overlapping, [](const ProcessSets& sets, std::int64_t rank) {
    const ProcessSet& set = sets.at(rank == 0 ? "ends" : "last two");
    for (const auto type : {torch::kFloat, torch::kBool, torch::kBFloat16, torch::kLong}) {
      if (rank != 0) {
        const torch::Tensor own = numbers(type, rank);
        for (const std::int64_t root : {1, 2})
          EXPECT_TRUE(torch::equal(set.broadcast(own, root), numbers(type, root))) << type;
        EXPECT_TRUE(torch::equal(own, numbers(type, rank))) << "the argument has changed";
      }
      if (rank != 1) {
        EXPECT_TRUE(torch::equal(sets.at("ends").broadcast(numbers(type, rank), 2), numbers(type, 2)));
      }
    }
    if (rank == 1) {
      EXPECT_TRUE(torch::equal(sets.at("middle").broadcast(numbers(torch::kInt, 7), 1), numbers(torch::kInt, 7)));
    }
    if (rank == 1) return;
    EXPECT_THAT([&] { std::ignore = sets.at("ends").broadcast(torch::ones({1}), 1); },
                ThrowsMessage<std::invalid_argument>(
                    "broadcast of the process set \"ends\" (2 ranks) from rank 1, which is not in the process set "
                    "\"ends\" (ranks 0, 2)"));
  });
}

TEST(ProcessSet, TakesTensorsOfAnyStridesAndSizesAndGivesNewOnesWithoutHistory) {
  with_process_sets(2, {{"both", {0, 1}}, {"first", {0}}}, [](const ProcessSets& sets, std::int64_t rank) {
    for (const std::string name : {"both", "first"}) {
      const ProcessSet& set = sets.at(name);
      if (!set.includes_this_rank()) continue;
      const torch::Tensor whole = torch::arange(12.0).reshape({3, 4}).requires_grad_();
      // The ranks' strides differ.
      const torch::Tensor own = rank == 0 ? whole.t() : whole.t().contiguous();
      for (const torch::Tensor& result :
           {set.all_reduce(own), set.all_gather(own)[set.size() - 1], set.broadcast(own, set.size() - 1)}) {
        EXPECT_FALSE(result.requires_grad());
        EXPECT_TRUE(torch::equal(result, whole.t())) << name << result;
        EXPECT_FALSE(result.is_alias_of(whole));
      }
      const torch::Tensor none = torch::empty({0, 4}, torch::kLong);
      EXPECT_EQ(set.all_reduce(none, ReduceOp::sum).sizes(), (Sizes{0, 4}));
      EXPECT_EQ(set.all_gather(none).sizes(), (Sizes{set.size(), 0, 4}));
      EXPECT_EQ(set.broadcast(none, 0).sizes(), (Sizes{0, 4}));
      const torch::Tensor conjugate = torch::conj(torch::view_as_complex(torch::ones({3, 2})));
      EXPECT_EQ(torch::imag(set.all_reduce(conjugate, ReduceOp::sum))[2].item<double>(),
                -static_cast<double>(set.size()));
      EXPECT_EQ(torch::imag(set.all_gather(conjugate))[0][2].item<double>(), -1.0);
      EXPECT_EQ(torch::imag(set.broadcast(conjugate, 0))[2].item<double>(), -1.0);
      EXPECT_EQ(set.all_reduce(torch::ones({}), ReduceOp::sum).item<std::int64_t>(), set.size());
    }
  });
}

TEST(ProcessSet, NamesTheMembersWhoseCallsDiffer) {
  with_process_sets(3, overlapping, [](const ProcessSets& sets, std::int64_t rank) {
    const ProcessSet& ends = sets.at("ends");
    const bool is_last = rank == 2;
    const torch::Tensor two = torch::ones({2});
    const std::vector<std::pair<std::function<void()>, std::string>> rows{
        {[&] { std::ignore = ends.all_reduce(torch::ones({is_last ? 3 : 2})); },
         "all_reduce of the process set \"ends\" (2 ranks) needs equal shapes and types on all ranks, in calls that "
         "all "
         "ranks make alike: rank 0 sent 'all_reduce (mean) of Float [2] on the CPU', rank 2 sent 'all_reduce (mean) of "
         "Float [3] on the CPU'"},
        {[&] { std::ignore = ends.all_gather(is_last ? two.to(torch::kHalf) : two); },
         "rank 2 sent 'all_gather of Half [2] on the CPU'"},
        {[&] { std::ignore = ends.all_reduce(two, is_last ? ReduceOp::max : ReduceOp::min); },
         "rank 0 sent 'all_reduce (min) of Float [2] on the CPU', rank 2 sent 'all_reduce (max) of"},
        {[&] { std::ignore = ends.broadcast(two, is_last ? 2 : 0); },
         "rank 0 sent 'broadcast from rank 0 of Float [2] on the CPU', rank 2 sent 'broadcast from rank 2 of"},
        {[&] { std::ignore = is_last ? ends.all_gather(two) : ends.broadcast(two, 0); },
         "rank 0 sent 'broadcast from rank 0 of Float [2] on the CPU', rank 2 sent 'all_gather of Float [2] on the "
         "CPU'"},
    };
    for (const auto& [call, words] : rows) {
      if (rank != 1) {
        EXPECT_THAT(call, ThrowsMessage<std::invalid_argument>(HasSubstr(words)));
      }
    }
  });
}

TEST(ProcessSet, RefusesTheCollectivesOnARankOutside) {
  with_process_sets(3, overlapping, [](const ProcessSets& sets, std::int64_t rank) {
    if (rank != 1) return;
    const ProcessSet& ends = sets.at("ends");
    const std::string words =
        "() of the process set \"ends\" (ranks 0, 2) was called by rank 1, which is not in it: ask "
        "includes_this_rank() "
        "before";
    const torch::Tensor one = torch::ones({1});
    EXPECT_THAT([&] { std::ignore = ends.all_reduce(one); }, ThrowsMessage<std::logic_error>("all_reduce" + words));
    EXPECT_THAT([&] { std::ignore = ends.all_gather(one); }, ThrowsMessage<std::logic_error>("all_gather" + words));
    EXPECT_THAT([&] { std::ignore = ends.broadcast(one, 0); }, ThrowsMessage<std::logic_error>("broadcast" + words));
  });
  std::vector<std::int64_t> ten(10);
  for (std::int64_t rank = 0; rank < 10; ++rank) ten[static_cast<std::size_t>(rank)] = rank;
  const auto large = make_process_set({.name = "ten", .ranks = ten, .rank = 10});
  EXPECT_THAT([&] { std::ignore = large->rank(); },
              ThrowsMessage<std::logic_error>(HasSubstr("(ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more)")));
}

TEST(ProcessSet, EndsWithTheGroupsErrorWhenAMemberIsLost) {
  const auto body = [](const ProcessSets& sets, std::int64_t rank) {
    if (rank == 2) return;  // It ends, as a rank does that was lost.
    if (rank == 0) {
      EXPECT_THROW(std::ignore = sets.at("ends").all_reduce(torch::ones({2})), strategy::ExchangeFailed);
    }
    if (rank == 1) {
      EXPECT_THROW(std::ignore = sets.at("last two").all_gather(torch::ones({2})), strategy::ExchangeFailed);
    }
  };
  with_process_sets(3, overlapping, body, Leaving::at_once);
}

TEST(ProcessSet, SaysWhichExchangeFailed) {
  const auto failure = std::make_exception_ptr(std::runtime_error{"Connection closed by peer"});
  const auto set = make_process_set({.name = "pair",
                                     .ranks = {0, 1},
                                     .process_group = c10::make_intrusive<fakes::BrokenGroup>(failure),
                                     .wait = fakes::plain_wait});
  EXPECT_THAT(
      [&] { std::ignore = set->all_reduce(torch::ones({1})); },
      ThrowsMessage<strategy::ExchangeFailed>(
          "sending the tensors of all_reduce of the process set \"pair\" (2 ranks): Connection closed by peer"));
}

TEST(TensorExchange, TellsLongTextsApartByTheirEnds) {
  fakes::run_ranks(2, [](fakes::RankThread& rank) {
    const TensorExchange exchange{rank.process_group, fakes::plain_wait};
    const std::string begin(255, 'a');
    const auto equal = exchange.gather_texts(begin + "b", "texts");
    EXPECT_EQ(equal[0], equal[1]);
    const auto differing = exchange.gather_texts(begin + (rank.rank == 0 ? "b" : "c"), "texts");
    EXPECT_NE(differing[0], differing[1]);
    EXPECT_THAT(differing[1], testing::StartsWith("aaaa"));
    EXPECT_EQ(exchange.gather_texts(begin, "texts"), (std::vector<std::string>{begin, begin}));
  });
}

}  // namespace
}  // namespace trainyard::train
