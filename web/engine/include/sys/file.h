// <sys/file.h>: locks, where nobody else could hold one.
#pragma once

#define LOCK_EX 2
#define LOCK_NB 4

static inline int flock(int, int) { return 0; }
