// Tokenizer: text to token ids and back.
#include <algorithm>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "qkv/text/tokenizer.h"

namespace qkv::python {
namespace {

nb::object text_of(const std::string& bytes) {
  PyObject* text = PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace");
  if (text == nullptr) throw nb::python_error();
  return nb::steal(text);
}

// Spans count bytes there and characters here.
nb::list spans_of(const std::vector<TextSpan>& spans, const std::string& text) {
  std::vector<std::size_t> characters(text.size() + 1);
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    characters[i] = count;
    const bool last_byte = i + 1 == text.size() || (static_cast<unsigned char>(text[i + 1]) & 0xC0) != 0x80;
    if (last_byte) ++count;
  }
  characters[text.size()] = count;
  nb::list list;
  for (const TextSpan& span : spans) list.append(nb::make_tuple(characters[span.begin], characters[span.end]));
  return list;
}

template <class Number>
nb::list numbers_of(const std::vector<Number>& numbers) {
  nb::list list;
  for (const Number number : numbers) list.append(nb::int_(static_cast<long>(number)));
  return list;
}

nb::dict encode_text(const Tokenizer& tokenizer, nb::handle text, nb::handle max_length,
                     nb::handle add_special_tokens) {
  const std::string given = take_text(text, "text");
  const std::int64_t most = max_length.is_none() ? 0 : take_whole(max_length, "max_length");
  if (most < 0 || (!max_length.is_none() && most == 0)) throw std::invalid_argument("max_length must be 1 or more");
  const Encoding encoding =
      tokenizer.encode(given, {.max_length = static_cast<std::size_t>(most),
                               .add_special_tokens = take_flag(add_special_tokens, "add_special_tokens")});
  nb::list tokens;
  for (const std::string& token : encoding.tokens) tokens.append(text_of(token));
  return dict_of("ids", numbers_of(encoding.ids), "tokens", tokens, "type_ids", numbers_of(encoding.type_ids),
                 "offsets", spans_of(encoding.offsets, given), "special", numbers_of(encoding.special));
}

nb::object decode_ids(const Tokenizer& tokenizer, nb::handle ids, nb::handle skip_special_tokens) {
  std::vector<std::int32_t> tokens;
  for (const std::int64_t id : take_whole_numbers(ids, "ids")) {
    if (id < 0 || id >= Tokenizer::kAnyVocab) throw std::invalid_argument("ids must be from 0 to 2^31 - 1");
    tokens.push_back(static_cast<std::int32_t>(id));
  }
  const bool skip = take_flag(skip_special_tokens, "skip_special_tokens");
  return text_of(tokenizer.decode(tokens, {.skip_special_tokens = skip}));
}

nb::object id_of(const Tokenizer& tokenizer, nb::handle token) {
  const std::optional<std::int32_t> id = tokenizer.id_of(take_text(token, "token"));
  return id ? nb::object(nb::int_(*id)) : nb::none();
}

}  // namespace

void bind_tokenizer(nb::module_& module) {
  nb::class_<Tokenizer>(module, "_Tokenizer")
      .def(
          "__init__",
          [](Tokenizer* place, nb::handle path) { new (place) Tokenizer(Tokenizer::load(take_text(path, "path"))); },
          "path"_a, nb::sig("def __init__(self, path: str) -> None"))
      .def("encode", &encode_text, "text"_a, "max_length"_a = nb::none(), "add_special_tokens"_a = true,
           nb::sig("def encode(self, text: str, max_length: int | None = None, add_special_tokens: bool = True) -> "
                   "dict[str, list[typing.Any]]"))
      .def("decode", &decode_ids, "ids"_a, "skip_special_tokens"_a = true,
           nb::sig("def decode(self, ids: collections.abc.Iterable[int], skip_special_tokens: bool = True) -> str"))
      .def("id_of", &id_of, "token"_a, nb::sig("def id_of(self, token: str) -> int | None"))
      .def(
          "token_of",
          [](const Tokenizer& tokenizer, nb::handle id) {
            const std::int64_t number = take_whole(id, "id");
            if (number < 0 || number >= Tokenizer::kAnyVocab)
              throw std::invalid_argument("id must be from 0 to 2^31 - 1");
            return text_of(tokenizer.token_of(static_cast<std::int32_t>(number)));
          },
          "id"_a, nb::sig("def token_of(self, id: int) -> str"))
      .def(
          "special_tokens",
          [](const Tokenizer& tokenizer) {
            nb::list tokens;
            for (const std::string& token : tokenizer.special_tokens()) tokens.append(text_of(token));
            return tokens;
          },
          nb::sig("def special_tokens(self) -> list[str]"))
      .def("vocab", [](const Tokenizer& tokenizer) { return tokenizer.vocab(); });
}

}  // namespace qkv::python
