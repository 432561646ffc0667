// One row times the matrices of a decoder of 135 million weights (SmolLM2's), kept in every storage, on one thread, in
// turns: processor time per token, the weights' bytes per second, and that beside a plain sum of the same bytes.
//
//   storage_turns [ROUNDS] [ROWS]
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "plain_sum.h"
#include "processor_time.h"
#include "qkv/matmul.h"
#include "qkv/random.h"

namespace qkv::bench {
namespace {

struct Shape {
  std::int64_t n, k;
};

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (int layer = 0; layer < 30; ++layer) {
    all.insert(all.end(), {{960, 576}, {576, 576}, {1536, 576}, {1536, 576}, {576, 1536}});
  }
  all.push_back({49152, 576});
  return all;
}

PackedMatrix make(const Shape& shape, WeightStorage storage) {
  Random random(1);
  const std::int64_t bytes = block_bytes(storage);
  if (bytes == 0) {
    Tensor numbers = Tensor::uninitialized({shape.n, shape.k});
    for (float& x : std::span(numbers.data<float>(), static_cast<std::size_t>(shape.n * shape.k))) {
      x = static_cast<float>(random.uniform() - 0.5);
    }
    return PackedMatrix(numbers.view().transpose(0, 1), 1, storage);
  }
  Tensor blocks = Tensor::uninitialized({shape.n, shape.k / 32 * bytes}, Dtype::u8);
  for (std::int64_t i = 0; i < blocks.element_count(); ++i) {
    blocks.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(i % bytes < 4 ? 0x20 : random.below(256));
  }
  return PackedMatrix::of_blocks(blocks, storage, 1);
}

struct Weights {
  std::string name;
  std::vector<PackedMatrix> matrices{};
  double bytes = 0, seconds = std::numeric_limits<double>::infinity(), read = seconds;
};

std::array<Words, 3> parts(const PackedMatrix& b) {
  return {words_of(b.panels()), words_of(b.column_scales()), words_of(b.column_sums())};
}

Weights make(std::string_view name, WeightStorage storage) {
  Weights weights{.name = std::string(name)};
  for (const Shape& shape : shapes()) {
    const PackedMatrix& added = weights.matrices.emplace_back(make(shape, storage));
    for (const Words words : parts(added)) weights.bytes += static_cast<double>(words.size_bytes());
  }
  return weights;
}

void run(int rounds, std::int64_t rows) {
  std::vector<Weights> all;
  for (const auto& [name, storage] : kWeightStorages) all.push_back(make(name, storage));
  const Tensor a = Tensor::zeros({rows, 1536});
  Tensor out = Tensor::zeros({rows, 49152});
  std::uint64_t sum = 0;
  for (int round = 0; round < rounds; ++round) {
    for (Weights& one : all) {
      one.read = std::min(one.read, seconds_of([&] {
                            for (const PackedMatrix& b : one.matrices) {
                              for (const Words words : parts(b)) sum += sum_of(words.data(), std::ssize(words));
                            }
                          }));
      one.seconds =
          std::min(one.seconds, seconds_of([&] {
                     for (const PackedMatrix& b : one.matrices) {
                       matmul(a.view().slice(1, 0, b.rows()), b, out.view().slice(1, 0, b.columns()), {.threads = 1});
                     }
                   }));
    }
  }
  for (const Weights& one : all) {
    fmt::print("{:12} {:6.2f} ms, {:4.0f} MB, {:5.1f} GB/s, {:4.2f} of a plain sum, {:4.2f} of f32's time\n", one.name,
               1e3 * one.seconds, 1e-6 * one.bytes, 1e-9 * one.bytes / one.seconds, one.read / one.seconds,
               one.seconds / all.front().seconds);
  }
  if (sum == 1) fmt::print("\n");
}

}  // namespace
}  // namespace qkv::bench

int main(int argc, char** argv) {
  qkv::bench::run(argc > 1 ? std::atoi(argv[1]) : 10, argc > 2 ? std::atoi(argv[2]) : 1);
}
