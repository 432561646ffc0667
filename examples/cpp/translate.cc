// Translates the lines of standard input, several at once, and says of which translations the model is unsure.
//
//   cmake -B build && cmake --build build && echo "You are welcome" | build/translate FOLDER
#include <qkv/pipelines/translator.h>

#include <exception>
#include <iostream>
#include <string>
#include <vector>

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: translate FOLDER\n";
    return 2;
  }
  const qkv::Translator translator = qkv::Translator::load(argv[1]);
  constexpr std::size_t kTogether = 32;
  std::vector<std::string> lines;
  const auto write = [&] {
    for (const auto& found : translator.translate(lines)) {
      std::cout << found.front().text << (found.front().unsure ? "  (unsure)\n" : "\n");
    }
    lines.clear();
  };
  for (std::string line; std::getline(std::cin, line);) {
    lines.push_back(line);
    if (lines.size() == kTogether) write();
  }
  write();
} catch (const std::exception& error) {
  std::cerr << "translate: " << error.what() << '\n';
  return 1;
}
