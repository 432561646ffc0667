// What torch says of its own state, asked without a look-up of names and without a line of Python.
#pragma once

#include <nanobind/nanobind.h>

namespace qkv::python {

class TorchState {
 public:
  // torch must be imported.
  static const TorchState& get();

  // Whether a mode, a transformation or a trace wants to see every operation.
  bool is_watched() const;
  // Or forward mode or autocast, which change what is computed.
  bool is_changed() const;
  bool wants_gradients() const;  // torch.is_grad_enabled()
  int threads() const;           // torch.get_num_threads()

 private:
  TorchState();

  nanobind::object modes_, transformed_, autocast_, trace_, gradients_, threads_, forward_mode_, level_;
};

}  // namespace qkv::python
