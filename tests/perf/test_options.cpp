#include <gtest/gtest.h>

#include <initializer_list>

#include "bench/perf/local_ranks.hpp"
#include "bench/perf/options.hpp"

namespace ucxring::perf {
namespace {

std::optional<Options> parse(std::initializer_list<const char*> arguments, int& status) {
  std::vector<const char*> all{"ucxring_perf"};
  all.insert(all.end(), arguments);
  return parse_options(static_cast<int>(all.size()), all.data(), status);
}

Options good(std::initializer_list<const char*> arguments) {
  int status = -1;
  auto options = parse(arguments, status);
  EXPECT_TRUE(options.has_value());
  return options.value_or(Options{});
}

/// The message of a bad usage.
std::string bad(std::initializer_list<const char*> arguments) {
  int status = -1;
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(parse(arguments, status).has_value());
  EXPECT_EQ(status, kBadUsage);
  return ::testing::internal::GetCapturedStderr();
}

using Sizes = std::vector<std::size_t>;

TEST(PerfOptions, Defaults) {
  const Options options = good({});
  EXPECT_EQ(options.benchmark->name, "all_reduce");
  EXPECT_EQ(options.sizes.front(), 8U);
  EXPECT_EQ(options.sizes.back(), 64U << 20);
  EXPECT_EQ(options.world_size, 2);
  EXPECT_TRUE(options.in_place && options.out_of_place && options.method.check);
  EXPECT_EQ(options.bind, allowed_cores() >= 2);
  EXPECT_EQ(options.master_host, "localhost");
}

TEST(PerfOptions, Sizes) {
  EXPECT_EQ(good({"-b", "1K", "-e", "4M", "-f", "64"}).sizes, (Sizes{1024, 65536, 4194304}));
  EXPECT_EQ(good({"-b", "8", "-e", "24", "-i", "8"}).sizes, (Sizes{8, 16, 24}));
  EXPECT_EQ(good({"-b", "1", "-e", "8"}).sizes, (Sizes{4, 8}))
      << "sizes below an element are one element, once";
  EXPECT_EQ(good({"barrier"}).sizes, (Sizes{0}));
}

TEST(PerfOptions, EverythingElse) {
  const Options options = good({"reduce_scatter",
                                "-d",
                                "bfloat16",
                                "-o",
                                "max",
                                "-n",
                                "3",
                                "-w",
                                "0",
                                "-c",
                                "0",
                                "--trials",
                                "7",
                                "--ranks",
                                "3",
                                "--no-bind",
                                "--in-place",
                                "--cpu",
                                "-J",
                                "x.json",
                                "--algorithm",
                                "ring",
                                "--set",
                                "LANES=2",
                                "--set",
                                "slice_bytes=64Ki"});
  EXPECT_EQ(options.type, DataType::bfloat16);
  EXPECT_EQ(options.op, ReduceOp::max);
  EXPECT_EQ(options.method.iterations, 3U);
  EXPECT_EQ(options.method.warmup, 0U);
  EXPECT_EQ(options.method.trials, 7);
  EXPECT_FALSE(options.method.check || options.bind || options.out_of_place);
  EXPECT_TRUE(options.in_place && options.print_cpu);
  EXPECT_EQ(options.json_file, "x.json");
  EXPECT_EQ(options.config.algorithm, "reduce_scatter:ring");
  EXPECT_EQ(options.config.lanes, 2);
  EXPECT_EQ(options.config.slice_bytes, 65536U);
  EXPECT_DOUBLE_EQ(good({"--time-per-size", "50"}).method.time_per_size.count(), 0.05);
}

TEST(PerfOptions, OneRankOfAJobFromOutside) {
  const Options options =
      good({"--store", "folder", "--rank", "1", "--world-size", "4", "--master-host", "node0"});
  EXPECT_EQ(options.rank, 1);
  EXPECT_EQ(options.world_size, 4);
  EXPECT_EQ(options.store, "folder");
  EXPECT_EQ(options.master_host, "node0");
  EXPECT_FALSE(options.bind);
  EXPECT_NE(bad({"--store", "folder", "--rank", "1"}), "");
  EXPECT_NE(bad({"--rank", "1"}), "");
  EXPECT_NE(bad({"--store", "folder", "--rank", "4", "--world-size", "4"}), "");
  EXPECT_NE(bad({"--store", "folder", "--rank", "0", "--world-size", "4", "--ranks", "4"}), "");
}

TEST(PerfOptions, BadUsageNamesWhatIsWrong) {
  const auto names = [](std::initializer_list<const char*> arguments, const char* what) {
    const std::string message = bad(arguments);
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  names({"all_produce"}, "all_produce");
  names({"-d", "float31"}, "float31");
  names({"-b", "4X"}, "minbytes: x unit");
  names({"-b", "2M", "-e", "1M"}, "maxbytes");
  names({"-b", "0"}, "minbytes");
  names({"-f", "1"}, "1");
  names({"-n", "5", "--time-per-size", "5"}, "time-per-size");
  names({"-o", "bit_or"}, "bit_or");
  names({"-o", "average", "-d", "float8_e5m2", "--ranks", "9"}, "-c 0");
  names({"broadcast", "--out-of-place"}, "in place");
  names({"broadcast", "-r", "2"}, "root");
  names({"--algorithm", "star"}, "star");
  names({"--set", "LANES"}, "NAME=VALUE");
  names({"--set", "LANE=2"}, "LANES");
  names({"--transport", "pigeon"}, "pigeon");
  names({"--nonsense"}, "nonsense");
}

TEST(PerfOptions, HelpIsComplete) {
  int status = -1;
  ::testing::internal::CaptureStdout();
  EXPECT_FALSE(parse({"--help"}, status).has_value());
  EXPECT_EQ(status, kRight);
  const std::string help = ::testing::internal::GetCapturedStdout();
  for (const Benchmark& each : benchmarks()) EXPECT_NE(help.find(each.name), std::string::npos) << each.name;
  for (const char* option :
       {"--minbytes", "--iters", "--time-per-size", "--json", "--store", "--set", "--bind"}) {
    EXPECT_NE(help.find(option), std::string::npos) << option;
  }
}

}  // namespace
}  // namespace ucxring::perf
