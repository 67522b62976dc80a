// A program of tests whose ranks are processes: this program itself, started again.
#include <gtest/gtest.h>

#include "tests/support/processes.hpp"

int main(int argc, char** argv) {
  int status = 0;
  if (ucxring::testing::run_role(argc, argv, status)) return status;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
