// The fold kernels: any number of sources in one pass.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "collectives/reduce/table.hpp"
#include "tests/unit/reduction_inputs.hpp"
#include "tests/unit/reduction_reference.hpp"

namespace ucxring {
namespace {

using namespace reduction_test;

constexpr std::size_t kCounts[] = {0, 1, 3, 7, 8, 9, 31, 64, 65, 1000};
constexpr int kSourceCounts[] = {1, 2, 3, 4, 8};
constexpr int kNone = -2;      ///< no second target
constexpr int kSeparate = -1;  ///< a target that is none of the sources

/// Which memory the targets are: an index of a source, or one of the constants.
struct Targets {
  int first;
  int second;
};

std::vector<Targets> all_targets(int source_count) {
  const int last = source_count - 1;
  std::vector<Targets> targets{{kSeparate, kNone}, {kSeparate, kSeparate}, {kSeparate, 0}, {kSeparate, last}};
  for (const int first : std::set{0, source_count / 2, last}) {
    targets.push_back({first, kNone});
    targets.push_back({first, kSeparate});
    if (last > 0) targets.push_back({first, first == last ? 0 : last});
  }
  return targets;
}

/// The inputs of one fold and its result by the reference.
struct Problem {
  DataType type;
  ReduceOp op;
  double divisor;
  std::vector<Bytes> sources;
  Bytes want;

  [[nodiscard]] std::size_t count() const { return want.size() / size_of(type); }
  [[nodiscard]] int source_count() const { return static_cast<int>(sources.size()); }
  [[nodiscard]] std::string text() const {
    return std::string(to_string(op)) + " of " + std::string(to_string(type)) + ", " +
           std::to_string(count()) + " elements from " + std::to_string(sources.size()) + " sources by " +
           std::to_string(divisor);
  }
};

Problem make_problem(DataType type, ReduceOp op, std::vector<Bytes> sources, double divisor) {
  Problem problem{type, op, divisor, std::move(sources), {}};
  problem.want.resize(problem.sources[0].size());
  for (std::size_t i = 0; i < problem.want.size(); i += size_of(type)) {
    std::vector<const std::byte*> elements;
    for (const Bytes& source : problem.sources) elements.push_back(&source[i]);
    reference::fold(type, op, elements, divisor, &problem.want[i]);
  }
  return problem;
}

Problem random_problem(DataType type, ReduceOp op, int source_count, std::size_t count,
                       std::mt19937_64& random) {
  std::vector<Bytes> sources;
  for (int k = 0; k < source_count; ++k) sources.push_back(random_elements(type, count, random));
  const bool divides = op == ReduceOp::average && random() % 4 != 0;
  return make_problem(type, op, std::move(sources), divides ? source_count : 1);
}

void check(const Problem& problem, const Targets& targets, std::size_t offset) {
  const std::string what =
      problem.text() + ", to " + std::to_string(targets.first) + " and " + std::to_string(targets.second);
  std::vector<Guarded> memory;
  for (const Bytes& source : problem.sources) memory.emplace_back(source, (offset += 3) % 16);
  Guarded separate(problem.want.size(), (offset + 5) % 16), separate_second(problem.want.size(), 1);
  std::vector<const void*> pointers;
  for (Guarded& source : memory) pointers.push_back(source.data());
  const auto choose = [&](int target, Guarded& otherwise) {
    return (target < 0 ? otherwise : memory[static_cast<std::size_t>(target)]).data();
  };
  std::byte* first = choose(targets.first, separate);
  std::byte* second = targets.second == kNone ? nullptr : choose(targets.second, separate_second);
  find_reduction(problem.type, problem.op)
      .fold(first, second, pointers.data(), problem.source_count(), problem.divisor, problem.count());
  expect_same(problem.type, problem.want, first, what);
  if (second != nullptr && problem.count() != 0) {
    ASSERT_EQ(std::memcmp(first, second, problem.want.size()), 0) << what;
  }
  ASSERT_TRUE(separate.intact() && separate_second.intact()) << what;
  for (std::size_t k = 0; k < memory.size(); ++k) {
    ASSERT_TRUE(memory[k].intact()) << what;
    if (pointers[k] == first || pointers[k] == second) continue;
    const Bytes& source = problem.sources[k];
    ASSERT_TRUE(std::equal(source.begin(), source.end(), memory[k].data())) << what << ", source " << k;
  }
}

class FoldTest : public OnEveryTarget {};

TEST_P(FoldTest, EveryPairIsTheReference) {
  std::mt19937_64 random(1);
  for (const DataType type : all_types()) {
    for (const ReduceOp op : all_ops()) {
      if (!supports_reduction(type, op)) continue;
      for (const int source_count : kSourceCounts) {
        for (const std::size_t count : kCounts) {
          const Problem problem = random_problem(type, op, source_count, count, random);
          for (const Targets& targets : all_targets(source_count)) {
            ASSERT_NO_FATAL_FAILURE(check(problem, targets, random() % 16));
          }
        }
      }
    }
  }
}

/// For types without a wider one to compute in.
TEST_P(FoldTest, IsCombineRepeatedAndThenDivide) {
  std::mt19937_64 random(2);
  for (const DataType type : all_types()) {
    const bool narrow = type >= DataType::float16 && type <= DataType::float8_e5m2;
    for (const ReduceOp op : all_ops()) {
      if (narrow || !supports_reduction(type, op)) continue;
      const std::size_t count = 5000;
      const Problem problem = random_problem(type, op, 5, count, random);
      const Reduction kernels = find_reduction(type, op);
      Bytes want = problem.sources[0], got(want.size());
      std::vector<const void*> pointers;
      for (const Bytes& source : problem.sources) pointers.push_back(source.data());
      for (int k = 1; k < 5; ++k) kernels.combine(want.data(), want.data(), pointers[std::size_t(k)], count);
      if (op == ReduceOp::average) kernels.divide(want.data(), want.data(), problem.divisor, count);
      kernels.fold(got.data(), nullptr, pointers.data(), 5, problem.divisor, count);
      ASSERT_NO_FATAL_FAILURE(expect_same(type, want, got.data(), problem.text()));
    }
  }
}

/// Memory that ends where a page ends whose neighbour must not be touched.
class BeforeTheEdge {
 public:
  explicit BeforeTheEdge(std::size_t bytes)
      : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
        base_(static_cast<std::byte*>(
            mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
        data_(base_ + page_ - bytes) {
    EXPECT_EQ(mprotect(base_ + page_, page_, PROT_NONE), 0);
  }
  BeforeTheEdge(const BeforeTheEdge&) = delete;
  BeforeTheEdge& operator=(const BeforeTheEdge&) = delete;
  ~BeforeTheEdge() { munmap(base_, 2 * page_); }
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::size_t page_;
  std::byte* base_;
  std::byte* data_;
};

TEST_P(FoldTest, TouchesNothingBehindTheArrays) {
  for (const DataType type : all_types()) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product}) {
      const Reduction kernels = find_reduction(type, op);
      for (std::size_t count = 0; count <= 130; ++count) {
        const std::size_t bytes = count * size_of(type);
        const BeforeTheEdge a(bytes), b(bytes), target(bytes), second(bytes);
        const void* const sources[] = {a.data(), b.data(), a.data()};
        kernels.fold(target.data(), second.data(), sources, 3, 1.0, count);
        kernels.combine(target.data(), a.data(), b.data(), count);
      }
    }
  }
}

/// The first source holds 2ⁿ, whose successor is 2ⁿ + 2, the others 1: rounded after each addition the sum
/// would stay 2ⁿ.
TEST_P(FoldTest, NarrowTypesRoundOnce) {
  struct Case {
    DataType type;
    std::uint16_t power, one, power_plus_two, half_of_it;
  };
  for (const Case& test : {Case{DataType::float16, 0x6800, 0x3c00, 0x6801, 0x6401},
                           Case{DataType::bfloat16, 0x4380, 0x3f80, 0x4381, 0x4301},
                           Case{DataType::float8_e4m3fn, 0x58, 0x38, 0x59, 0x51},
                           Case{DataType::float8_e5m2, 0x48, 0x3c, 0x49, 0x45}}) {
    for (const std::size_t count : {1, 40}) {
      const std::size_t size = size_of(test.type);
      Bytes power(count * size), one(count * size), got(count * size);
      for (std::size_t i = 0; i < power.size(); i += size) {
        std::memcpy(&power[i], &test.power, size);
        std::memcpy(&one[i], &test.one, size);
      }
      const void* const sources[] = {power.data(), one.data(), one.data()};
      for (const bool average : {false, true}) {
        const ReduceOp op = average ? ReduceOp::average : ReduceOp::sum;
        find_reduction(test.type, op).fold(got.data(), nullptr, sources, 3, average ? 2.0 : 1.0, count);
        const std::uint16_t& want = average ? test.half_of_it : test.power_plus_two;
        for (std::size_t i = 0; i < got.size(); i += size) {
          ASSERT_EQ(std::memcmp(&got[i], &want, size), 0) << to_string(test.type) << " average " << average;
        }
      }
    }
  }
}

/// The sum of four times the largest number is beyond the format, its average is not.
TEST_P(FoldTest, AverageOfNarrowTypesDoesNotOverflow) {
  struct Case {
    DataType type;
    std::uint16_t largest;
  };
  for (const Case& test : {Case{DataType::float16, 0x7bff}, Case{DataType::float8_e4m3fn, 0x7e},
                           Case{DataType::float8_e5m2, 0x7b}}) {
    const void* const sources[] = {&test.largest, &test.largest, &test.largest, &test.largest};
    std::uint16_t got = 0;
    find_reduction(test.type, ReduceOp::average).fold(&got, nullptr, sources, 4, 4.0, 1);
    EXPECT_EQ(got, test.largest) << to_string(test.type);
  }
}

/// A NaN in any source makes the canonical one, for numbers on either side of it.
TEST_P(FoldTest, MinAndMaxPropagateNan) {
  std::mt19937_64 random(3);
  for (const DataType type : all_types()) {
    if (is_integer(type) || is_complex(type)) continue;
    const std::size_t size = size_of(type), count = 37;
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
      for (std::size_t where = 0; where < 4; ++where) {
        std::vector<Bytes> sources(4, Bytes(count * size));
        for (std::size_t i = 0; i < count * size; i += size) {
          sources[(where + 1) % 4][i] = static_cast<std::byte>(random() % 128);
          std::fill_n(&sources[where][i], size, std::byte{0xff});  // NaN in every format
        }
        const std::vector<const void*> pointers{sources[0].data(), sources[1].data(), sources[2].data(),
                                                sources[3].data()};
        Bytes got(count * size), canonical(size);
        reference::combine(type, op, sources[where].data(), sources[where].data(), canonical.data());
        find_reduction(type, op).fold(got.data(), nullptr, pointers.data(), 4, 1.0, count);
        for (std::size_t i = 0; i < got.size(); i += size) {
          ASSERT_EQ(std::memcmp(&got[i], canonical.data(), size), 0)
              << to_string(op) << " of " << to_string(type) << ", NaN in source " << where;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FoldTest, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         target_name);

}  // namespace
}  // namespace ucxring
