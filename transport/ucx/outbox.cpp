#include "transport/ucx/outbox.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "transport/ucx/endpoint.hpp"
#include "transport/ucx/status.hpp"

namespace ucxring::ucx {
namespace {

ucp_request_param_t parameters(ucp_send_nbx_callback_t callback, void* user_data, unsigned flags) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = callback;
  param.user_data = user_data;
  param.flags = flags;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  return param;
}

}  // namespace

Status Outbox::send(UcxEndpoint& peer, ConstBuffer data, Tag tag, Stamp stamp, Completion& done) {
  const DataHeader header{group_.route_to(peer.rank()), tag.bits(), stamp, data.bytes, 0};
  Fragment& first = make_fragment(peer, header, nullptr);
  first.done = &done;
  first.unfinished = 1;  // held until all are posted
  done.start();
  const bool whole = data.bytes >= group_.protocol.rendezvous_bytes;
  const std::size_t step = whole ? data.bytes : group_.protocol.fragment_bytes;
  Fragment* fragment = &first;
  std::size_t offset = 0;
  do {
    const std::size_t bytes = std::min(step, data.bytes - offset);
    if (fragment == nullptr) fragment = &make_fragment(peer, header, &first);
    fragment->header.offset = offset;
    ++first.unfinished;
    const ucs_status_t status = post(*fragment, data.data + offset, bytes);
    if (status == UCS_INPROGRESS) {
      // The callback will finish it.
    } else if (status == UCS_OK || offset > 0) {
      finish(*fragment, status);
    } else {
      done.state = Completion::State::idle;
      fragments_.give_back(first);
      return peer.explain(status);
    }
    if (status < 0) break;
    fragment = nullptr;
    offset += bytes;
  } while (offset < data.bytes);
  finish(first, UCS_OK);
  return {};
}

Outbox::Fragment& Outbox::make_fragment(UcxEndpoint& peer, const DataHeader& header, Fragment* first) {
  Fragment& fragment = fragments_.take();
  fragment.header = header;
  fragment.outbox = this;
  fragment.peer = &peer;
  fragment.first = first == nullptr ? &fragment : first;
  fragment.worst = UCS_OK;
  return fragment;
}

ucs_status_t Outbox::post(Fragment& fragment, const std::byte* data, std::size_t bytes) {
  unsigned flags = 0;
  if (group_.protocol.rendezvous_bytes <= fragment.header.total) {
    flags = UCP_AM_SEND_FLAG_RNDV;
  } else if (group_.protocol.always_eager) {
    flags = UCP_AM_SEND_FLAG_EAGER;
  }
  const ucp_request_param_t param = parameters(&Outbox::on_sent, &fragment, flags);
  ++posted_;
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(fragment.peer->handle(), static_cast<unsigned>(MessageKind::data), &fragment.header,
                      sizeof(DataHeader), data, bytes, &param);
  return UCS_PTR_STATUS(request);
}

void Outbox::on_sent(void* request, ucs_status_t status, void* user_data) noexcept {
  ucp_request_free(request);
  auto& fragment = *static_cast<Fragment*>(user_data);
  fragment.outbox->finish(fragment, status);
}

void Outbox::finish(Fragment& fragment, ucs_status_t status) noexcept {
  Fragment& first = *fragment.first;
  if (status != UCS_OK) first.worst = status;
  if (&fragment != &first) fragments_.give_back(fragment);
  if (--first.unfinished > 0) return;
  if (!group_.aborted.ok()) {
    first.done->fail(group_.aborted);
  } else if (first.worst != UCS_OK) {
    first.done->fail(first.peer->explain(first.worst));
  } else {
    first.done->succeed();
  }
  group_.activity = true;
  fragments_.give_back(first);
}

Status Outbox::send_control(UcxEndpoint& peer, ControlKind kind, std::span<const std::byte> message) {
  Control& control = controls_.take();
  control.header = {group_.route_to(peer.rank()), static_cast<std::uint32_t>(kind), 0};
  control.outbox = this;
  std::copy(message.begin(), message.end(), control.data.begin());
  const ucp_request_param_t param = parameters(&Outbox::on_control_sent, &control, UCP_AM_SEND_FLAG_EAGER);
  ++posted_;
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(peer.handle(), static_cast<unsigned>(MessageKind::control), &control.header,
                      sizeof(ControlHeader), control.data.data(), message.size(), &param);
  const ucs_status_t status = UCS_PTR_STATUS(request);
  if (status == UCS_INPROGRESS) return {};
  controls_.give_back(control);
  return status == UCS_OK ? Status() : peer.explain(status);
}

void Outbox::on_control_sent(void* request, ucs_status_t, void* user_data) noexcept {
  // A failure reaches the listener through the endpoint's error handler.
  ucp_request_free(request);
  auto& control = *static_cast<Control*>(user_data);
  control.outbox->controls_.give_back(control);
}

void Outbox::close_unfinished() noexcept {
  std::vector<UcxEndpoint*> unfinished;
  fragments_.for_each_used([&](Fragment& fragment) { unfinished.push_back(fragment.peer); });
  for (UcxEndpoint* peer : unfinished) peer->close();
}

void Outbox::fail_all(const Status& why) noexcept {
  fragments_.for_each_used([&](Fragment& fragment) {
    if (fragment.first == &fragment) {
      fragment.done->fail(why);
      group_.activity = true;
    }
    fragments_.give_back(fragment);
  });
  controls_.for_each_used([&](Control& control) { controls_.give_back(control); });
}

}  // namespace ucxring::ucx
