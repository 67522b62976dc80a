// What becomes of threads that are in a call of ours while the interpreter ends.
#pragma once

namespace ucxring {

/// Says that this thread ends the interpreter. `holds_back` says of the thread that calls it whether it is
/// one that the interpreter would end by force.
void begin_ending(bool (*holds_back)()) noexcept;

/// Around calls that release Python's lock, outside of everything that they lock. A daemon thread that comes
/// out of such a call while the interpreter ends would ask for that lock and be ended by force in a
/// destructor, which aborts the process: it stays here until the process is gone.
class EndingGuard {
 public:
  EndingGuard() = default;
  ~EndingGuard();
  EndingGuard(const EndingGuard&) = delete;
  EndingGuard& operator=(const EndingGuard&) = delete;
};

}  // namespace ucxring
