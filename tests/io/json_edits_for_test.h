// Refusals of JSON files: a good one with one value changed.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace qkv::test {

struct JsonEdit {
  std::string place;    // a JSON pointer
  std::string value;    // what comes there, as JSON; nothing: what is there goes
  std::string message;  // of the refusal, behind the name of the file
};

inline std::string edited(nlohmann::json file, const std::string& place, const std::string& value) {
  const nlohmann::json::json_pointer pointer(place);
  if (value.empty()) return file.patch({{{"op", "remove"}, {"path", place}}}).dump();
  file[pointer] = nlohmann::json::parse(value);
  return file.dump();
}

}  // namespace qkv::test
