// Ours in the comparison of bench/peers/vit_peers.py: reads "BATCH THREADS" a line, runs the model of a folder once
// over a batch of random pictures, and answers with the seconds that it took and the multiply-add peak of a core in f32
// in GFLOP/s.
//
//   vit_turns FOLDER [reduced]
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <iostream>

#include "qkv/models/vit.h"
#include "qkv/random.h"
#include "simd/dispatch.h"

int main(int count, char** arguments) {
  using namespace qkv;
  if (count != 2 && count != 3) return 2;
  const Vit model = Vit::load(arguments[1], count == 3 ? WeightStorage::reduced : WeightStorage::full);
  const PictureSize size = model.config().picture;
  Random random(1);
  std::int64_t batch = 0;
  for (int threads = 0; std::cin >> batch >> threads;) {
    Tensor pictures = Tensor::uninitialized({batch, size.height, size.width, model.config().channels});
    for (std::int64_t i = 0; i < pictures.element_count(); ++i) {
      pictures.data<float>()[i] = static_cast<float>(random.normal());
    }
    const auto start = std::chrono::steady_clock::now();
    const Tensor hidden = model.forward(pictures, {.threads = threads});
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("{} {} {}\n", seconds, peak_gflops(Dtype::f32), hidden.data<float>()[0]);
    std::fflush(stdout);
  }
}
