// Attention, and an exception that crosses the border of the library.
#include <qkv/attention.h>
#include <qkv/error.h>
#include <qkv/files.h>
#include <qkv/version.h>

#include <cstdio>
#include <string_view>

std::string_view version_in_second();

int main() {
  using namespace qkv;
  if (version_in_second() != version()) return 1;
  const Tensor query = Tensor::zeros({1, 1, 1, 1}), key = Tensor::zeros({1, 1, 2, 1});
  const Tensor value = Tensor::of<float>({1, 1, 2, 1}, {1, 2});
  if (attention(query, key, value).data<float>()[0] != 1.5f) return 1;  // of equal logits: the mean
  try {
    parse_json_matrix("[", "a text");
  } catch (const FormatError& error) {
    std::puts("guest: 1.5");
    return 0;
  }
  return 1;
}
