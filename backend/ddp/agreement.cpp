#include "backend/ddp/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>

#include "backend/ddp/bucket.hpp"
#include "backend/errors.hpp"

namespace ucxring::ddp {
namespace {

/// Tensors of at least so many bytes are broadcast where they lie; smaller ones are packed together.
constexpr std::size_t kPackedBytes = std::size_t{1} << 20;
/// Between the lines that describe parameters; no name holds it.
constexpr char kSeparator = '\n';

std::string describe(const at::Tensor& parameter, const std::string& name) {
  std::ostringstream shape;
  shape << parameter.sizes();
  return fmt::format("{} of shape {}, {}{}", name, shape.str(), c10::toString(parameter.scalar_type()),
                     parameter.requires_grad() ? "" : ", without gradient");
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line, kSeparator);) lines.push_back(std::move(line));
  return lines;
}

/// The byte tensors of all ranks, which may differ in length.
std::vector<std::string> gather_texts(c10d::ProcessGroup& group, const std::string& own, c10::Device device) {
  const auto world_size = static_cast<std::size_t>(group.getSize());
  const auto gather = [&](const at::Tensor& input) {
    std::vector<at::Tensor> inputs{input.to(device)};
    std::vector<std::vector<at::Tensor>> outputs(1);
    for (std::size_t rank = 0; rank < world_size; ++rank) outputs[0].push_back(at::empty_like(inputs[0]));
    group.allgather(outputs, inputs)->wait();
    return outputs[0];
  };
  const auto lengths = gather(at::tensor({static_cast<std::int64_t>(own.size())}, at::kLong));
  std::int64_t longest = 1;
  for (const at::Tensor& length : lengths) longest = std::max(longest, length.item<std::int64_t>());
  at::Tensor padded = at::zeros({longest}, at::kByte);
  std::memcpy(padded.data_ptr(), own.data(), own.size());
  std::vector<std::string> texts;
  const auto gathered = gather(padded);
  for (std::size_t rank = 0; rank < world_size; ++rank) {
    const at::Tensor bytes = gathered[rank].cpu();
    texts.emplace_back(static_cast<const char*>(bytes.data_ptr()),
                       static_cast<std::size_t>(lengths[rank].item<std::int64_t>()));
  }
  return texts;
}

/// Of the first place where two ranks differ.
std::string difference(const std::vector<std::string>& first, const std::vector<std::string>& other,
                       int rank) {
  const std::size_t common = std::min(first.size(), other.size());
  const auto place = static_cast<std::size_t>(
      std::mismatch(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(common), other.begin()).first -
      first.begin());
  const auto side = [&](const std::vector<std::string>& lines) {
    return place < lines.size() ? lines[place] : fmt::format("only {} parameters", lines.size());
  };
  return fmt::format(
      "the model differs between ranks at parameter {}: rank 0 has {}; rank {} has {}. Build the same model "
      "on "
      "every rank.",
      place, side(first), rank, side(other));
}

/// Small tensors of one device in one buffer of bytes.
class Pack {
 public:
  void add(const at::Tensor& tensor) {
    if (tensor.nbytes() == 0) return;
    tensors_.push_back(tensor);
    starts_.push_back(bytes_);
    bytes_ += (static_cast<std::int64_t>(tensor.nbytes()) + kAlignment - 1) / kAlignment * kAlignment;
  }
  [[nodiscard]] bool empty() const noexcept { return tensors_.empty(); }
  /// A buffer for the tensors, not filled.
  [[nodiscard]] at::Tensor buffer() const {
    return at::empty({bytes_}, tensors_.front().options().dtype(at::kByte));
  }
  void fill(const at::Tensor& buffer) const {
    for (std::size_t index = 0; index < tensors_.size(); ++index) place(buffer, index).copy_(tensors_[index]);
  }
  void unpack(const at::Tensor& buffer) const {
    for (std::size_t index = 0; index < tensors_.size(); ++index) tensors_[index].copy_(place(buffer, index));
  }

 private:
  static constexpr std::int64_t kAlignment = 16;  // of the largest dtype, complex128

  [[nodiscard]] at::Tensor place(const at::Tensor& buffer, std::size_t index) const {
    const at::Tensor& tensor = tensors_[index];
    return buffer.narrow(0, starts_[index], static_cast<std::int64_t>(tensor.nbytes()))
        .view(tensor.scalar_type())
        .view(tensor.sizes());
  }

  std::vector<at::Tensor> tensors_;
  std::vector<std::int64_t> starts_;
  std::int64_t bytes_ = 0;
};

}  // namespace

void check_same_structure(c10d::ProcessGroup& group, std::span<const at::Tensor> parameters,
                          std::span<const std::string> names) {
  if (group.getSize() == 1) return;
  std::string own;
  for (std::size_t index = 0; index < parameters.size(); ++index)
    own += describe(parameters[index], names[index]) + kSeparator;
  const c10::Device device = parameters.empty() ? c10::Device(c10::kCPU) : parameters.front().device();
  const auto texts = gather_texts(group, own, device);
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] != texts[0]) {
      throw_value_error("ucxring DDP: " +
                        difference(split_lines(texts[0]), split_lines(texts[rank]), static_cast<int>(rank)));
    }
  }
}

void broadcast_values(c10d::ProcessGroup& group, std::span<const at::Tensor> tensors, int root) {
  if (group.getSize() == 1) return;
  const at::NoGradGuard no_grad;
  c10d::BroadcastOptions options;
  options.rootRank = root;
  std::map<std::string, Pack> packs;  // by device: the same order on all ranks
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  std::vector<std::vector<at::Tensor>> direct;
  for (const at::Tensor& each : tensors) {
    const at::Tensor tensor = each.variable_data();  // a version of its own
    if (tensor.nbytes() >= kPackedBytes && tensor.is_contiguous()) {
      works.push_back(group.broadcast(direct.emplace_back(std::vector<at::Tensor>{tensor}), options));
    } else {
      packs[tensor.device().str()].add(tensor);
    }
  }
  for (auto& [device, pack] : packs) {
    if (pack.empty()) continue;
    std::vector<at::Tensor> packed{pack.buffer()};
    if (group.getRank() == root) pack.fill(packed[0]);
    group.broadcast(packed, options)->wait();
    if (group.getRank() != root) pack.unpack(packed[0]);
  }
  for (const auto& work : works) work->wait();
}

}  // namespace ucxring::ddp
