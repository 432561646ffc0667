// An observer that passes everything on to another one, under a longer name.
#pragma once

#include <string>

#include "qkv/observer.h"

namespace qkv::inline layers {

class ScopedObserver : public Observer {
 public:
  ScopedObserver(Observer& to, std::string scope) : to_(to), scope_(std::move(scope)) {}
  bool wants(std::string_view name) const override { return to_.wants(scope_ + std::string(name)); }
  void receive(std::string_view name, const TensorView& value) override {
    to_.receive(scope_ + std::string(name), value);
  }

 private:
  Observer& to_;
  std::string scope_;
};

// body(observer), whose observations get the scope if anybody looks.
template <class Body>
auto observed(Observer* observer, const std::string& scope, const Body& body) {
  if (observer == nullptr) return body(nullptr);
  ScopedObserver scoped(*observer, scope);
  return body(static_cast<Observer*>(&scoped));
}

}  // namespace qkv::inline layers
