#include "mask_arrays.h"

namespace qkv::app {

Mask MaskArrays::combined() const {
  Mask mask = window;
  if (causal) mask = mask & Mask::causal(*causal);
  if (align) mask = mask & Mask::window(-1, -1, *align);
  if (prefix) mask = mask & Mask::prefix(prefix, align.value_or(Align::top_left));
  if (lengths) mask = mask & Mask::lengths(lengths);
  if (documents_query) mask = mask & Mask::documents(documents_query, documents_key ? documents_key : documents_query);
  for (const TensorView& visible : booleans) mask = mask & Mask::boolean(visible);
  return mask;
}

}  // namespace qkv::app
