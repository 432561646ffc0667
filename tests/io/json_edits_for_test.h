// Refusals of JSON files: a good one with one value changed.
#pragma once

namespace qkv::test {

struct JsonEdit {
  std::string place;    // a JSON pointer
  std::string value;    // what comes there, as JSON; nothing: what is there goes
  std::string message;  // of the refusal, behind the name of the file
};

// A table of lines "PLACE = VALUE => MESSAGE", or "PLACE => MESSAGE" where the value goes, or "PLACES => each is
// missing"; a line that begins with four spaces goes on with the one above, and "." is the place of the document.
inline std::vector<JsonEdit> json_edits(std::string table) {
  for (std::size_t at; (at = table.find("\n    ")) != std::string::npos;) table.replace(at, 5, " ");
  std::vector<JsonEdit> edits;
  std::istringstream rows(table);
  for (std::string row; std::getline(rows, row);) {
    if (row.empty()) continue;
    const std::size_t arrow = row.find(" => "), equals = std::min(row.find(" = "), arrow);
    const std::string place = row.substr(0, equals), message = row.substr(arrow + 4);
    const std::string value = equals < arrow ? row.substr(equals + 3, arrow - equals - 3) : "";
    if (message != "each is missing") {
      edits.push_back({place == "." ? "" : place, value, message});
      continue;
    }
    std::istringstream places(place);
    for (std::string one; places >> one;) {
      std::string path = one.substr(1);
      std::replace(path.begin(), path.end(), '/', '.');
      edits.push_back({one, "", path + " is missing"});
    }
  }
  return edits;
}

inline std::string edited(nlohmann::json file, const JsonEdit& edit) {
  if (edit.value.empty()) return file.patch({{{"op", "remove"}, {"path", edit.place}}}).dump();
  file[nlohmann::json::json_pointer(edit.place)] = nlohmann::json::parse(edit.value);
  return file.dump();
}

// refusal() of each text, a good one edited, says what the table says, behind this beginning.
template <class Refusal>
void expect_edits_refused(const nlohmann::json& good, const std::string& table, const std::string& beginning,
                          const Refusal& refusal) {
  for (const JsonEdit& edit : json_edits(table)) {
    const bool names_file = edit.message.starts_with("model.safetensors: ");
    EXPECT_EQ(refusal(edited(good, edit)), (names_file ? "" : beginning) + edit.message) << edit.place;
  }
}

}  // namespace qkv::test
