// What refusals.json lists of a kind of folder: a file, what stands in it instead, and what is said of it.
#pragma once

#include "io/files_for_test.h"

namespace qkv::test {

// `folder` is right without that: load() reads it.
template <class Load>
void expect_refusals(const TemporaryFolder& folder, const char* kind, const Load& load) {
  load();
  const auto refusals = nlohmann::json::parse(slurp(QKV_TEST_DATA "/pipelines/refusals.json"));
  for (const auto& row : refusals.at(kind)) {
    const std::string name = row[0], message = row[2], before = slurp(folder / name);
    folder.put(name, row[1].dump());
    const std::string refused = message_of<FormatError>([&] { load(); });
    EXPECT_TRUE(refused.ends_with("/" + name + ": " + message)) << refused << ", not " << message;
    folder.put(name, before);
  }
}

}  // namespace qkv::test
