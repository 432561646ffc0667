/// \file
/// QKV_API marks what the shared library exports; everything else in it is hidden.
#pragma once

#if defined(__GNUC__)
#define QKV_API __attribute__((visibility("default")))
#else
#define QKV_API
#endif
