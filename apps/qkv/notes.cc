// Says on standard error what was written.
#include "notes.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "figures.h"
#include "io/files/files.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

bool quiet = false;

// The size of a file or of a folder's files; 0 for unreadable ones.
double bytes_of(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    const auto size = fs::file_size(path, error);
    return error ? 0 : static_cast<double>(size);
  }
  double sum = 0;
  for (const auto& entry : fs::directory_iterator(path, error)) sum += bytes_of(entry.path());
  return sum;
}

std::string_view way_to_look(const std::string& path) {
  constexpr std::pair<std::string_view, std::string_view> kWays[] = {
      {".html", "open it in a browser"}, {".svg", "open it in a browser"},
      {".npy", "numpy.load() reads it"}, {".safetensors", "safetensors.numpy.load_file() reads it"},
      {".csv", "numbers as text"},       {".json", "numbers as text"}};
  for (const auto& [ending, way] : kWays) {
    if (io::has_ending(path, ending)) return way;
  }
  return {};
}

}  // namespace

void be_quiet() { quiet = true; }
bool is_quiet() { return quiet; }

void note(std::string_view text) {
  if (!quiet && !text.empty()) fmt::print(stderr, "{}\n", text);
}

void note_written(const std::string& path, std::string_view how) {
  if (how.empty()) how = way_to_look(path);
  note(fmt::format("wrote {} ({}){}{}", one_line(path), bytes_text(bytes_of(path)), how.empty() ? "" : "; ", how));
}

}  // namespace qkv::app
