// Asks the terminal for its width and colours.
#include "text_style.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "command_line.h"

namespace qkv::app {
namespace {

constexpr std::int64_t kWidest = 100'000;

// The names of terminals say so (terminfo), and those of more colours by this variable.
bool has_256_colors(std::string_view terminal) {
  const char* more = std::getenv("COLORTERM");
  return terminal.find("256color") != std::string_view::npos || (more != nullptr && *more != '\0');
}

}  // namespace

TextStyle text_style() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool refused =
      (no_color != nullptr && *no_color != '\0') || (terminal != nullptr && std::string_view(terminal) == "dumb");
  TextStyle style{.color = !refused && isatty(STDOUT_FILENO) == 1};
  style.colors_256 = has_256_colors(terminal == nullptr ? "" : terminal);
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return style;  // no terminal
  const char* columns = std::getenv("COLUMNS");
  const std::int64_t wanted = columns == nullptr ? 0 : parse_whole(columns).value_or(0);
  if (wanted > 0 && wanted <= kWidest) {
    style.width = static_cast<int>(wanted);
  } else if (size.ws_col > 0) {
    style.width = size.ws_col;
  }
  return style;
}

}  // namespace qkv::app
