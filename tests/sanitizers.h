// Defines QKV_SANITIZED where a sanitizer that needs memory or threads of its own is at work.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define QKV_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define QKV_SANITIZED
#endif
#endif
