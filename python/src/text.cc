// Tokenizer: text to token ids and back.
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "pipelines/texts/character_spans.h"
#include "qkv/text/tokenizer.h"

namespace qkv::python {
namespace {

// Spans count bytes there and characters here.
nb::list spans_of(const std::vector<TextSpan>& spans, const std::string& text) {
  const CharacterSpans characters(text);
  nb::list list;
  for (const TextSpan& bytes : spans) {
    const TextSpan counted = characters.of(bytes);
    list.append(nb::make_tuple(counted.begin, counted.end));
  }
  return list;
}

nb::list texts_of(const auto& texts) {
  nb::list list;
  for (const std::string& text : texts) list.append(give_text(text));
  return list;
}

std::int32_t checked_id(std::int64_t id) {
  if (id < 0 || id >= Tokenizer::kAnyVocab) throw std::invalid_argument("ids must be from 0 to 2^31 - 1");
  return static_cast<std::int32_t>(id);
}

nb::dict encode_text(const Tokenizer& tokenizer, nb::handle text, nb::handle max_length,
                     nb::handle add_special_tokens) {
  const std::string given = take_text(text, "text");
  const std::int64_t most = max_length.is_none() ? 0 : take_whole(max_length, "max_length");
  if (most < 0 || (!max_length.is_none() && most == 0)) throw std::invalid_argument("max_length must be 1 or more");
  const Encoding encoding =
      tokenizer.encode(given, {.max_length = static_cast<std::size_t>(most),
                               .add_special_tokens = take_flag(add_special_tokens, "add_special_tokens")});
  return dict_of("ids", numbers_of(encoding.ids), "tokens", texts_of(encoding.tokens), "type_ids",
                 numbers_of(encoding.type_ids), "offsets", spans_of(encoding.offsets, given), "special",
                 numbers_of(encoding.special));
}

nb::object decode_ids(const Tokenizer& tokenizer, nb::handle ids, nb::handle skip_special_tokens) {
  std::vector<std::int32_t> tokens;
  for (const std::int64_t id : take_whole_numbers(ids, "ids")) tokens.push_back(checked_id(id));
  const bool skip = take_flag(skip_special_tokens, "skip_special_tokens");
  return give_text(tokenizer.decode(tokens, {.skip_special_tokens = skip}));
}

nb::object id_of(const Tokenizer& tokenizer, nb::handle token) {
  const std::optional<std::int32_t> id = tokenizer.id_of(take_text(token, "token"));
  return id ? nb::object(nb::int_(*id)) : nb::none();
}

}  // namespace

void bind_tokenizer(nb::module_& module) {
  add_class<Tokenizer>(module, "_Tokenizer")
      .def(
          "__init__",
          [](Tokenizer* place, nb::handle path) { new (place) Tokenizer(Tokenizer::load(take_text(path, "path"))); },
          "path"_a)
      .def("encode", &encode_text, "text"_a, "max_length"_a = nb::none(), "add_special_tokens"_a = true)
      .def("decode", &decode_ids, "ids"_a, "skip_special_tokens"_a = true)
      .def("id_of", &id_of, "token"_a)
      .def(
          "token_of",
          [](const Tokenizer& tokenizer, nb::handle id) {
            return give_text(tokenizer.token_of(checked_id(take_whole(id, "id"))));
          },
          "id"_a)
      .def("special_tokens", [](const Tokenizer& tokenizer) { return texts_of(tokenizer.special_tokens()); })
      .def("vocab", [](const Tokenizer& tokenizer) { return tokenizer.vocab(); });
}

}  // namespace qkv::python
