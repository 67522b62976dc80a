// Trains a small network on several ranks in C++: DistributedDataParallel, micro-batches, bfloat16 on the
// wire.
//
//   train FOLDER RANK WORLD_SIZE     once for each rank; all of them name the same empty folder
#include <torch/torch.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "backend/ddp/distributed_data_parallel.hpp"
#include "backend/ddp/distributed_sampler.hpp"

namespace {

constexpr int kSamples = 1024;
constexpr int kClasses = 3;
constexpr int kEpochs = 30;
constexpr std::size_t kBatch = 64;  // of each rank and step
constexpr int kMicroBatches = 2;

struct Network : torch::nn::Module {
  Network() {
    body = register_module(
        "body", torch::nn::Sequential(torch::nn::Linear(2, 64), torch::nn::ReLU(), torch::nn::Linear(64, 64),
                                      torch::nn::ReLU(), torch::nn::Linear(64, kClasses)));
  }
  torch::Tensor forward(const torch::Tensor& points) { return body->forward(points); }

  torch::nn::Sequential body;
};

struct Data {
  torch::Tensor points;  // kSamples × 2
  torch::Tensor labels;  // kSamples
};

/// Points on the arms of a spiral, one arm per class.
Data spiral() {
  torch::manual_seed(1);
  const torch::Tensor labels = torch::arange(kSamples) % kClasses;
  const torch::Tensor radius = torch::rand(kSamples);
  const torch::Tensor angle = radius * 6 + labels * (2 * M_PI / kClasses) + torch::randn(kSamples) * 0.1;
  return {torch::stack({radius * angle.cos(), radius * angle.sin()}, 1), labels};
}

/// One optimizer step: the gradient of the mean over the batch of all ranks, in micro-batches of which only
/// the last communicates. Returns the loss of this rank.
template <typename Ddp>
double step(Ddp& ddp, torch::optim::Optimizer& optimizer, const Data& data, const torch::Tensor& chosen) {
  const auto micro_batches = chosen.chunk(kMicroBatches);
  double total = 0;
  const auto backward = [&](const torch::Tensor& indices) {
    const torch::Tensor scores = ddp(data.points.index_select(0, indices));
    const torch::Tensor loss =
        torch::nn::functional::cross_entropy(scores, data.labels.index_select(0, indices)) *
        (static_cast<double>(indices.numel()) / static_cast<double>(chosen.numel()));
    loss.backward();
    total += loss.item<double>();
  };
  optimizer.zero_grad();
  {
    const auto guard = ddp.no_sync();
    for (std::size_t micro = 0; micro + 1 < micro_batches.size(); ++micro) backward(micro_batches[micro]);
  }
  backward(micro_batches.back());
  optimizer.step();
  return total;
}

/// Whether the parameters of all ranks are the same bits.
bool replicas_identical(c10d::ProcessGroup& group, const Network& network) {
  std::vector<torch::Tensor> flat;
  for (const torch::Tensor& parameter : network.parameters()) flat.push_back(parameter.detach().flatten());
  std::vector<torch::Tensor> inputs{torch::cat(flat)};
  std::vector<std::vector<torch::Tensor>> outputs(1);
  for (int rank = 0; rank < group.getSize(); ++rank) outputs[0].push_back(torch::empty_like(inputs[0]));
  group.allgather(outputs, inputs)->wait();
  for (const torch::Tensor& other : outputs[0]) {
    if (!torch::equal(other, inputs[0])) return false;
  }
  return true;
}

int run(const std::string& folder, int rank, int world_size) {
  torch::set_num_threads(1);
  const auto store = c10::make_intrusive<c10d::FileStore>(folder + "/store", world_size);
  const auto group = ucxring::ddp::make_process_group(store, rank, world_size);
  const Data data = spiral();

  torch::manual_seed(
      static_cast<std::uint64_t>(rank));  // the wrapper makes all ranks start from rank 0's weights
  const auto network = std::make_shared<Network>();
  ucxring::ddp::DistributedDataParallel ddp(network, group);
  ddp.register_comm_hook(ucxring::ddp::bf16_compress(group), /*chains=*/false);
  torch::optim::Adam optimizer(network->parameters(), torch::optim::AdamOptions(5e-3));
  ucxring::ddp::DistributedSampler sampler(kSamples, rank, world_size);

  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    sampler.set_epoch(static_cast<std::uint64_t>(epoch));
    double loss = 0;
    int steps = 0;
    while (const auto indices = sampler.next(kBatch)) {
      const std::vector<std::int64_t> chosen(indices->begin(), indices->end());
      loss += step(ddp, optimizer, data, torch::tensor(chosen));
      ++steps;
    }
    if (rank == 0 && epoch % 10 == 9) std::cout << "epoch " << epoch + 1 << ": loss " << loss / steps << '\n';
  }

  const torch::NoGradGuard no_grad;
  const auto right = ddp(data.points).argmax(1).eq(data.labels).sum().item<std::int64_t>();
  const double accuracy = static_cast<double>(right) / kSamples;
  const bool identical = replicas_identical(*group, *network);
  std::cout << "rank " << rank << " of " << world_size << ": accuracy " << accuracy
            << (identical ? ", replicas identical\n" : ", replicas DIFFER\n");
  return identical && accuracy > 0.9 ? EXIT_SUCCESS : EXIT_FAILURE;
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
