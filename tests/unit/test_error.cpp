#include "transport/base/error.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace ucxring {
namespace {

TEST(Status, DefaultIsSuccess) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), ErrorCode::ok);
  EXPECT_EQ(status.peer(), -1);
  EXPECT_TRUE(status.message().empty());
  EXPECT_NO_THROW(status.throw_if_error());
}

TEST(Status, FailureCarriesCodePeerMessageAndPlace) {
  const Status status(ErrorCode::peer_lost, "rank 3 died", 3);
  const std::uint32_t line = __LINE__ - 1;
  const Status copy = status;
  EXPECT_FALSE(copy.ok());
  EXPECT_EQ(copy.code(), ErrorCode::peer_lost);
  EXPECT_EQ(copy.peer(), 3);
  EXPECT_EQ(copy.message(), "rank 3 died");
  EXPECT_EQ(copy.message().data(), status.message().data()) << "copies share one description";
  EXPECT_EQ(copy.where().line(), line);
  EXPECT_NE(std::strstr(copy.where().file_name(), "test_error.cpp"), nullptr);
}

TEST(Status, ThrowsItselfAsError) {
  try {
    Status(ErrorCode::timeout, "10 ms passed", 1).throw_if_error();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[timeout] 10 ms passed");
    EXPECT_EQ(error.code(), ErrorCode::timeout);
    EXPECT_EQ(error.peer(), 1);
    EXPECT_EQ(error.status().message(), "10 ms passed");
  }
}

TEST(ErrorCode, EachHasANameOfItsOwn) {
  std::string all;
  for (int code = 0; code <= static_cast<int>(ErrorCode::internal); ++code) {
    const std::string name = "," + std::string(to_string(static_cast<ErrorCode>(code))) + ",";
    EXPECT_EQ(all.find(name), std::string::npos) << name;
    EXPECT_NE(name, ",unknown,");
    all += name;
  }
  EXPECT_EQ(to_string(ErrorCode::peer_lost), "peer_lost");
}

}  // namespace
}  // namespace ucxring
