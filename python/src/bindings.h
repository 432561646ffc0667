// The functions that module.cc calls, one per file.
#pragma once

#include <nanobind/nanobind.h>

#include <span>
#include <string>
#include <utility>

#include "arguments.h"

namespace qkv::python {

// A function, or a class, as qkv/_qkv.pyi has it.
struct Stub {
  const char *name, *signature, *documentation;
};

// Those of a name, such as "Layer.backward": of an overloaded function several. std::logic_error if there is none.
std::span<const Stub> stubs_of(const std::string& name);

// Names of the package's own, which the stub leaves out.
inline bool is_private(const std::string& name) { return name.starts_with('_'); }

// Adds functions to a module or a class, with the signatures and docstrings of the stub.
template <class Scope>
class Described {
 public:
  explicit Described(Scope scope, std::string prefix = "") : scope_(std::move(scope)), prefix_(std::move(prefix)) {}

  template <class Function, class... Parameters>
  Described& def(const char* name, const Function& function, const Parameters&... parameters) {
    if (is_private(prefix_ + name)) {
      scope_.def(name, function, parameters...);
      return *this;
    }
    for (const Stub& stub : stubs_of(prefix_ + name)) {
      scope_.def(name, function, parameters..., nb::sig(stub.signature), stub.documentation);
    }
    return *this;
  }

 private:
  Scope scope_;
  std::string prefix_;
};

template <class Value, class... Base>
auto add_class(nb::module_& module, const char* name) {
  const char* const documentation = is_private(name) ? "" : stubs_of(name)[0].documentation;
  return Described(nb::class_<Value, Base...>(module, name, documentation), std::string(name) + ".");
}

void bind_errors(nb::module_& module);
void bind_masks(nb::module_& module);
void bind_attention(nb::module_& module);
void bind_tensors(nb::module_& module);
void bind_plan(nb::module_& module);
void bind_cache(nb::module_& module);
void bind_certify(nb::module_& module);
void bind_tokenizer(nb::module_& module);
void bind_embedder(nb::module_& module);
void bind_text_encoder(nb::module_& module);
void bind_translator(nb::module_& module);
void bind_generator(nb::module_& module);
void bind_any_layer(nb::module_& module);
void bind_heads(nb::module_& module);
void bind_stacks(nb::module_& module);
void bind_recurrent(nb::module_& module);
void bind_convolution(nb::module_& module);
void bind_patch_embedding(nb::module_& module);
void bind_pictures(nb::module_& module);
void bind_texts(nb::module_& module);
void bind_explain(nb::module_& module);
void bind_training(nb::module_& module);
void bind_process(nb::module_& module);

}  // namespace qkv::python
