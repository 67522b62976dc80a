#include "transport/base/descriptor.hpp"

#include <unistd.h>

namespace ucxring {

void close_descriptor(int descriptor) noexcept { ::close(descriptor); }

}  // namespace ucxring
