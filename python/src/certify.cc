// Fingerprints of what users hold, and the checks of certify().
#include "qkv/pipelines/certify.h"

#include <algorithm>

#include "arguments.h"
#include "bindings.h"
#include "calls.h"
#include "qkv/pipelines/fill_mask.h"
#include "qkv/pipelines/question_answerer.h"
#include "qkv/pipelines/reranker.h"
#include "qkv/pipelines/tagger.h"
#include "qkv/pipelines/text_classifier.h"
#include "qkv/target.h"

namespace qkv::python {
namespace {

template <class Model>
nb::object fingerprint_of(const Model& model) {
  return give_text(run_released([&] { return fingerprint(model); }));
}

template <class... Models>
void bind_fingerprints(nb::module_& module) {
  (module.def("_fingerprint", &fingerprint_of<Models>, "model"_a), ...);
}

bool is_fused() {
  const std::vector<Target> all = targets();
  return std::ranges::find_if(all, &Target::selected)->fused;
}

nb::list certified() {
  nb::list cases;
  for (const CertifiedCase& each : run_released([] { return certify(); })) {
    cases.append(nb::make_tuple(give_text(each.name), nb::int_(each.digest), nb::int_(each.expected)));
  }
  return cases;
}

nb::object certificate_of(nb::handle folder, nb::handle weights) {
  const std::string path = take_text(folder, "folder");
  const auto storage = take_choice<WeightStorage>(weights, "weights", kWeightStorages);
  return give_text(run_released([&] { return certificate(path, storage); }));
}

nb::object difference_of(nb::handle here, nb::handle expected) {
  return give_text(difference_of_certificates(take_text(here, "here"), take_text(expected, "expected")));
}

}  // namespace

void bind_certify(nb::module_& module) {
  bind_fingerprints<Translator, Generator, Reranker, TextClassifier, FillMask, Tagger, QuestionAnswerer, Vit,
                    PictureClassifier>(module);
  Described(module)
      .def("_is_fused", &is_fused)
      .def("_certify", &certified)
      .def("_certificate", &certificate_of, "folder"_a, "weights"_a)
      .def("_difference_of_certificates", &difference_of, "here"_a, "expected"_a);
}

}  // namespace qkv::python
