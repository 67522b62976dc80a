#include "backend/ddp/timings.hpp"

#include <chrono>

namespace ucxring::ddp {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace ucxring::ddp
