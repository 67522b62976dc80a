#include "transport/base/config.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "transport/base/error.hpp"

namespace ucxring {
namespace {

using Variables = std::map<std::string, std::string>;

Config parse(const Variables& variables) {
  return parse_config([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

/// The message of the error that `call` throws; fails when it throws none or another code.
template <typename Call>
std::string refused(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return std::string(error.status().message());
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(Config, DefaultsOfTableAndStructAgree) {
  const Config defaults;
  for (const Setting& setting : settings()) {
    EXPECT_EQ(setting.show(defaults), setting.default_value) << setting.name;
    EXPECT_FALSE(setting.help.empty()) << setting.name;
    EXPECT_FALSE(setting.allowed.empty()) << setting.name;
  }
}

TEST(Config, ShownValuesParseToThemselves) {
  const Config config = parse({{"UCXRING_SLICE_BYTES", "256Ki"},
                               {"UCXRING_LANES", "3"},
                               {"UCXRING_SPIN_US", "0"},
                               {"UCXRING_PROGRESS_THREAD", "Off"},
                               {"UCXRING_TRANSPORT", "UCX"},
                               {"UCXRING_PORT_RANGE", "5000-5010"}});
  EXPECT_EQ(config.slice_bytes, 256u << 10);
  EXPECT_EQ(config.lanes, 3);
  EXPECT_EQ(config.spin.count(), 0);
  EXPECT_FALSE(config.progress_thread);
  EXPECT_EQ(config.transport, "ucx");
  Config again;
  for (const Setting& setting : settings()) {
    setting.parse(again, setting.show(config));
    EXPECT_EQ(setting.show(again), setting.show(config)) << setting.name;
  }
}

TEST(Config, BadValuesNameVariableValueAndRule) {
  const Variables bad{{"UCXRING_SLICE_BYTES", "12q"},  {"UCXRING_LANES", "-1"},
                      {"UCXRING_SPIN_US", "1000001"},  {"UCXRING_PROGRESS_THREAD", "maybe"},
                      {"UCXRING_TRANSPORT", "pigeon"}, {"UCXRING_NET_DEVICES", "eth0,,eth1"},
                      {"UCXRING_UCX_TLS", ""},         {"UCXRING_PORT_RANGE", "20-10"},
                      {"UCXRING_LOG_LEVEL", "loud"},   {"UCXRING_PROBE", "maybe"},
                      {"UCXRING_DETERMINISTIC", "2"},  {"UCXRING_DEBUG", "TUNING,EVERYTHING"}};
  for (const auto& [name, value] : bad) {
    const std::string message = refused([&] { (void)parse({{name, value}}); });
    EXPECT_NE(message.find(name + "=\"" + value + "\""), std::string::npos) << message;
    EXPECT_NE(message.find("allowed: "), std::string::npos) << message;
  }
}

TEST(Config, RangesAreStrict) {
  for (const char* value : {"1", "4095", "65Mi", "1.5Mi", "4 Ki", "", "4ki"}) {
    refused([&] { (void)parse({{"UCXRING_SLICE_BYTES", value}}); });
  }
  EXPECT_EQ(parse({{"UCXRING_SLICE_BYTES", "8K"}, {"UCXRING_LANES", "256"}}).lanes, 256);
  for (const char* value : {"0-10", "1-65536", "-", "5", "a-b", "1-2-3"}) {
    refused([&] { (void)parse({{"UCXRING_PORT_RANGE", value}}); });
  }
}

TEST(Config, DebugListsSubsystems) {
  EXPECT_FALSE(parse({}).debugs("TUNING"));
  EXPECT_FALSE(parse({{"UCXRING_DEBUG", ""}}).debugs("TUNING"));
  EXPECT_TRUE(parse({{"UCXRING_DEBUG", "tuning"}}).debugs("TUNING"));
  EXPECT_TRUE(parse({{"UCXRING_DEBUG", "TUNING,Tuning"}}).debugs("TUNING"));
  const std::string message = refused([] { (void)parse({{"UCXRING_DEBUG", "turning"}}); });
  EXPECT_NE(message.find("no subsystem \"TURNING\""), std::string::npos) << message;
}

TEST(Config, SetByNameInAnyCase) {
  Config config;
  set_config(config, "slice_bytes", "1Mi");
  EXPECT_EQ(config.slice_bytes, 1u << 20);
  const std::string message = refused([&] { set_config(config, "slice_byte", "1Mi"); });
  EXPECT_NE(message.find("did you mean UCXRING_SLICE_BYTES?"), std::string::npos) << message;
}

TEST(Config, EnvironmentIsReadAndUnknownVariablesRefused) {
  ASSERT_EQ(::setenv("UCXRING_LANES", "7", 1), 0);
  EXPECT_EQ(config_from_environment().lanes, 7);
  ASSERT_EQ(::setenv("UCXRING_LANE", "7", 1), 0);
  const std::string message = refused([] { (void)config_from_environment(); });
  EXPECT_NE(message.find("UCXRING_LANE; did you mean UCXRING_LANES?"), std::string::npos) << message;
  ASSERT_EQ(::unsetenv("UCXRING_LANE"), 0);
  ASSERT_EQ(::unsetenv("UCXRING_LANES"), 0);
  EXPECT_EQ(config_from_environment().lanes, 0);
}

}  // namespace
}  // namespace ucxring
