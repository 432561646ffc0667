// The terms that follow scores and scale, in the order in which they apply. Each is a class
//   X::is_on(task)                   false: it changes nothing (choose_kernel() asks the same of all);
//   X::apply(tile), X::apply(row)    changes the logits of a block of queries, or of a single one.
// Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_LOGIT_TERMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_LOGIT_TERMS_INL_H_
#undef QKV_ATTENTION_TILE_LOGIT_TERMS_INL_H_
#else
#define QKV_ATTENTION_TILE_LOGIT_TERMS_INL_H_
#endif

#include <type_traits>

#include "attention/tile/alibi-inl.h"
#include "attention/tile/bias_arrays-inl.h"
#include "attention/tile/logit_functions-inl.h"
#include "attention/tile/relative_tables-inl.h"
#include "attention/tile/soft_cap-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T, int kVectors>
struct LogitTerms {
  static void apply(const LogitTile<T, kVectors>& tile, const RelativeRows<T, kVectors>& relative) {
    each(tile.task, [&]<class Term>(Term) {
      if constexpr (requires { Term::apply(tile, relative); }) {
        Term::apply(tile, relative);
      } else {
        Term::apply(tile);
      }
    });
  }

  static void apply(const LogitRow<T>& row) {
    each(row.task, [&]<class Term>(Term) { Term::apply(row); });
  }

  // Whether biases in arrays are all that changes the logits.
  static bool are_biases_alone(const AttentionTask& task) {
    bool alone = false, others = false;
    each(task, [&]<class Term>(Term) { (std::is_same_v<Term, BiasArrays<T, kVectors>> ? alone : others) = true; });
    return alone && !others;
  }

 private:
  template <class Visit>
  static HWY_INLINE void each(const AttentionTask& task, const Visit& visit) {
    visit_terms<SoftCap<T, kVectors>, BiasArrays<T, kVectors>, Alibi<T, kVectors>, RelativeTables<T, kVectors>,
                LogitFunctions<T, kVectors>>(task, visit);
  }

  template <class... Terms, class Visit>
  static HWY_INLINE void visit_terms(const AttentionTask& task, const Visit& visit) {
    ((Terms::is_on(task) ? visit(Terms()) : void()), ...);
  }
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
