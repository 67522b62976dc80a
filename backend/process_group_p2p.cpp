// Sends and receives of torch, and operations that are started together.
#include <utility>

#include "backend/process_group.hpp"
#include "backend/requests.hpp"

namespace ucxring {
namespace {

using Tensors = std::vector<at::Tensor>;

Request peer_request(const char* title, c10d::OpType type, const Tensors& tensors) {
  Request request = make_request(title, type, kNoTimeout);
  request.inputs = tensors;
  request.outputs = tensors;
  request.point_to_point = true;
  return request;
}

/// The request of a receive into `tensors`. A message may be shorter than the tensor, whose rest must stay:
/// so packed memory starts as a copy.
Request receive_request(const char* title, c10d::OpType type, const Tensors& tensors) {
  const at::Tensor& tensor = only(tensors, "recv");
  check_output(tensor, "recv");
  Request request = peer_request(title, type, tensors);
  const at::Tensor packed = packed_copy(tensor);
  request.staging.push_back(packed);
  stage_result(request, packed, tensor);
  return request;
}

}  // namespace

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::send(Tensors& tensors, int destination, int tag) {
  const at::Tensor& tensor = only(tensors, "send");
  check_input(tensor, "send");
  Request request = peer_request("ucxring:send", c10d::OpType::SEND, tensors);
  request.staging.push_back(packed_copy(tensor));
  return launch(std::move(request), true, [&](WorkUcxring& work, const Request& kept, CallOptions call) {
    const at::Tensor& packed = kept.staging.front();
    work.add(communicator_->send(bytes_of(packed), moving_type(packed.scalar_type()), Rank(destination), tag,
                                 call));
  });
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::recv(Tensors& tensors, int source, int tag) {
  Request request = receive_request("ucxring:recv", c10d::OpType::RECV, tensors);
  return launch(std::move(request), true, [&](WorkUcxring& work, const Request& kept, CallOptions call) {
    const at::Tensor& packed = kept.staging.front();
    work.add(communicator_->receive(writable_bytes_of(packed), moving_type(packed.scalar_type()),
                                    Rank(source), tag, call));
  });
}

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::recvAnysource(Tensors& tensors, int tag) {
  // Spelt as other backends do: torch's tests look for it.
  Request request = receive_request("ucxring:recvAnySource", c10d::OpType::RECVANYSOURCE, tensors);
  return launch(std::move(request), true, [&](WorkUcxring& work, const Request& kept, CallOptions call) {
    const at::Tensor& packed = kept.staging.front();
    work.add(
        communicator_->receive_any(writable_bytes_of(packed), moving_type(packed.scalar_type()), tag, call));
  });
}

void ProcessGroupUcxring::startCoalescing() { coalescing_.start(); }

ProcessGroupUcxring::WorkPtr ProcessGroupUcxring::endCoalescing() {
  const auto works = coalescing_.end();
  Request request = make_request("ucxring:coalesced", c10d::OpType::COALESCED, kNoTimeout);
  request.point_to_point = true;
  for (const auto& work : works) {
    const Tensors& outputs = work->request().outputs;
    request.outputs.insert(request.outputs.end(), outputs.begin(), outputs.end());
    request.point_to_point = request.point_to_point && work->request().point_to_point;
  }
  request.copy_back = [works] {
    for (const auto& work : works) work->settle();
  };
  auto all = c10::make_intrusive<WorkUcxring>(context_, std::move(request));
  for (const auto& work : works) {
    for (const Operation& operation : work->operations()) all->add(operation);
  }
  return all;
}

}  // namespace ucxring
