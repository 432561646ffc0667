// Score: checks the shapes of the parameters of each kind.
#include "qkv/attention/score.h"

#include <stdexcept>

namespace qkv {
namespace {

void require_shape(bool fits, const char* rule, const TensorView& w) {
  if (!fits) throw std::invalid_argument(std::string(rule) + ", got " + to_string(w.shape()));
}

}  // namespace

Score Score::additive(TensorView w_query, TensorView w_key, TensorView v) {
  require_shape(w_query.rank() == 2, "additive score: w_query must be [hidden, query size]", w_query);
  require_shape(w_key.rank() == 2 && w_key.size(0) == w_query.size(0),
                "additive score: w_key must be [hidden, key size] with the hidden size of w_query", w_key);
  require_shape(v.rank() == 1 && v.size(0) == w_query.size(0),
                "additive score: v must be [hidden] with the hidden size of w_query", v);
  Score score(Kind::additive);
  score.w_query_ = w_query;
  score.w_key_ = w_key;
  score.v_ = v;
  return score;
}

Score Score::concat(TensorView w, TensorView v) {
  require_shape(w.rank() == 2, "concat score: w must be [hidden, query size + key size]", w);
  require_shape(v.rank() == 1 && v.size(0) == w.size(0), "concat score: v must be [hidden] with the hidden size of w",
                v);
  Score score(Kind::concat);
  score.w_query_ = w;
  score.v_ = v;
  return score;
}

Score Score::bilinear(TensorView w) {
  require_shape(w.rank() == 2, "bilinear score: w must be [query size, key size]", w);
  Score score(Kind::bilinear);
  score.w_query_ = w;
  return score;
}

}  // namespace qkv
