// Sums a vector over several processes, without PyTorch.
//
//   all_reduce FOLDER RANK WORLD_SIZE     once for each rank; all of them name the same empty folder
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "collectives/communicator.hpp"

namespace {

int run(const std::string& folder, int rank, int world_size) {
  const auto store = ucxring::make_file_store(folder);
  ucxring::Communicator::Options options;
  options.config = ucxring::config_from_environment();
  options.timeout = std::chrono::seconds(30);
  const auto group = ucxring::Communicator::create(store, ucxring::Rank(rank), world_size, options);

  // Blocking, in place: every rank gets 1 + 2 + … + world size.
  std::vector<float> data(1 << 20, static_cast<float>(rank + 1));
  group->all_reduce(std::span(data));

  // Non-blocking: start, do something else, wait.
  std::vector<double> ranks(static_cast<std::size_t>(world_size));
  const double own = rank;
  const ucxring::Operation gather = group->all_gather(
      ucxring::ConstBuffer(reinterpret_cast<const std::byte*>(&own), sizeof own),
      ucxring::Buffer{reinterpret_cast<std::byte*>(ranks.data()), ranks.size() * sizeof(double)},
      ucxring::DataType::float64);
  const float expected = static_cast<float>(world_size * (world_size + 1) / 2);
  bool right = data.front() == expected && data.back() == expected;
  gather.wait().throw_if_error();

  for (int peer = 0; peer < world_size; ++peer) right &= ranks[static_cast<std::size_t>(peer)] == peer;
  std::cout << "rank " << rank << " of " << world_size << " over " << group->transport_name() << ": sum "
            << data.back() << (right ? ", right\n" : ", WRONG\n");

  // Nobody leaves before all have their results.
  group->barrier().wait().throw_if_error();
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: " << argv[0] << " FOLDER RANK WORLD_SIZE\n";
    return 2;
  }
  try {
    return run(argv[1], std::stoi(argv[2]), std::stoi(argv[3]));
  } catch (const std::exception& error) {
    std::cerr << "rank " << argv[2] << ": " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
