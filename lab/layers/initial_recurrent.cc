// Draws the weights that a recurrent layer is trained from.
#include <cmath>

#include "core/refuse.h"
#include "core/visit_dtype.h"
#include "lab/layers/recurrent.h"
#include "qkv/random.h"

namespace qkv {

void draw_recurrent(Recurrent& layer, std::uint64_t seed, double forget_bias) {
  const RecurrentConfig& config = layer.config();
  refuse_unless(forget_bias == 0 || config.cell == RecurrentCell::lstm, "draw_recurrent",
                "forget_bias is {}; only an LSTM has a forget gate", forget_bias);
  const double bound = 1 / std::sqrt(static_cast<double>(config.hidden));
  Random random(seed);
  layer.update([&](const std::string& name, Parameter& own) {
    visit_f32_f64(own.value.dtype(), [&]<class T>(T) {
      T* value = own.value.data<T>();
      for (std::int64_t i = 0; i < own.value.element_count(); ++i) {
        value[i] = static_cast<T>(bound * (2 * random.uniform() - 1));
      }
      if (name.find("bias_ih") == std::string::npos) return;
      for (std::int64_t i = config.hidden; forget_bias != 0 && i < 2 * config.hidden; ++i) {
        value[i] += static_cast<T>(forget_bias);
      }
    });
  });
}

}  // namespace qkv
