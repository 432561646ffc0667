/// \file
/// Stops long work that was begun: a scope with a token, which all that the library does in it asks.
#pragma once

#include <stop_token>

#include "qkv/api.h"

namespace qkv {

/// While it lives, what this thread asks of the library, and the threads that help it, ends by Stopped once the token
/// asks for it: within 50 ms of work (docs/semantics.md). Options that have a token do the same for their call, and
/// scopes inside one another all count. What was being computed is then unspecified, like outputs after any exception;
/// files are as they were before, or whole.
class QKV_API StopScope {
 public:
  explicit StopScope(std::stop_token token);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

  /// Whether the token of this scope, or of one around it, asks for an end.
  bool stop_requested() const;

 private:
  std::stop_token token_;
  const StopScope* around_;
};

}  // namespace qkv
