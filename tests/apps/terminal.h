// A terminal for a program that asks whether it writes to one.
#pragma once

#include <sys/ioctl.h>

#include <thread>

#include "apps/program.h"

namespace qkv::test {

// What the program writes on standard output if that is a terminal of so many columns.
inline std::string shown_on_terminal(const std::vector<std::string>& arguments,
                                     const std::vector<std::string>& environment, unsigned short columns = 0) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  EXPECT_TRUE(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
  const std::string name = ptsname(terminal);
  const int held = open(name.c_str(), O_RDWR | O_NOCTTY);  // reading ends when the last holder lets go
  const winsize size{.ws_row = 25, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  EXPECT_EQ(ioctl(held, TIOCSWINSZ, &size), 0);
  std::string text;
  std::thread reader([&] {
    char buffer[4096];
    for (ssize_t count = 0; (count = read(terminal, buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<std::size_t>(count));
    }
  });
  EXPECT_EQ(run_program(arguments, {.environment = environment, .output = name}).code, 0);
  close(held);
  reader.join();
  close(terminal);
  return text;
}

}  // namespace qkv::test
