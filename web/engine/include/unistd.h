// <unistd.h> with what libc++'s files name and WASI lacks; it falls back where this fails.
#pragma once
#include_next <unistd.h>
#include <errno.h>

static inline ssize_t copy_file_range(int, off_t*, int, off_t*, size_t, unsigned) {
  errno = ENOSYS;
  return -1;
}
