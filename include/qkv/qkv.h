/// \file
/// The library from C99, and from every language that calls C: models by their folder, and attention over arrays.
///
///     qkv_model* model;
///     float row[384];
///     const char* text = "The cat sat on the mat.";
///     if (qkv_open("models/minilm", QKV_EMBED, QKV_STORE_F32, &model) != QKV_OK) puts(qkv_message());
///     if (qkv_embed(model, &text, 1, NULL, row, 384) != QKV_OK) puts(qkv_message());
///     qkv_close(model);
///
/// Errors. Functions that return int return a qkv_status; qkv_message() says in one line what was wrong. The library
/// throws nothing into C, prints nothing and does not abort. Where a call fails, pointers that it was to fill are NULL
/// and numbers unspecified.
/// Texts are UTF-8, end with a NUL byte and stay the caller's; one that is not UTF-8 is QKV_INVALID. What a call gives
/// back by a pointer to a pointer (texts, labels) is one block of the library's, until qkv_free().
/// Threads. Any number of threads may use one model at once; results have the same bits as from calls one by one, for
/// any number of threads. qkv_close() must be the last call on a model. A thread must not be cancelled within a call.
/// Stability. Names, signatures, structs and numbers of this header are the same in all versions that share MAJOR.MINOR
/// (tests/c/interface.c, cmake/exports.map). A field that is 0 or NULL means its default.
#pragma once

#include <stdint.h>

#include "qkv/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/// What functions return.
enum qkv_status {
  QKV_OK = 0,
  QKV_INVALID = 1,    ///< an argument: NULL, negative, not UTF-8, of a wrong size, or a model opened for another task
  QKV_FORMAT = 2,     ///< a malformed file, or a kind that the task cannot use
  QKV_IO = 3,         ///< the file could not be read
  QKV_NO_MEMORY = 4,  ///< out of memory
  QKV_INTERNAL = 5    ///< anything else: a bug of the library
};

/// One line on the last call of this thread that failed; empty if none did. The library's, until the thread's next call
/// fails or the thread ends.
QKV_API const char* qkv_message(void);

/// MAJOR.MINOR.PATCH of the library that runs.
QKV_API const char* qkv_version(void);

/// Threads that calls use, in the whole process; 0: as many as the process may run on. QKV_INVALID below 0 and above
/// 1024.
QKV_API int qkv_set_threads(int count);

/// Frees what a call gave back; NULL is fine.
QKV_API void qkv_free(void* block);

/// The task that a model is opened for, and its function.
enum qkv_task {
  QKV_EMBED = 0,      ///< qkv_embed(): folders of sentence-transformers (pipelines/embedder.h)
  QKV_RANK = 1,       ///< qkv_rank(): cross-encoders with one label (pipelines/reranker.h)
  QKV_CLASSIFY = 2,   ///< qkv_classify(), qkv_classify_pair(): ForSequenceClassification
  QKV_FILL = 3,       ///< qkv_fill(): ForMaskedLM (pipelines/fill_mask.h)
  QKV_TRANSLATE = 4,  ///< qkv_translate(): Marian, BART, mBART (pipelines/translator.h)
  QKV_GENERATE = 5,   ///< qkv_generate(): decoder-only models, also as a GGUF file (pipelines/generator.h)
  QKV_TAG = 6,        ///< qkv_tag(): ForTokenClassification (pipelines/tagger.h)
  QKV_ANSWER = 7      ///< qkv_answer(): ForQuestionAnswering (pipelines/question_answerer.h)
};

/// How the matrices of a model's layers are kept (matmul.h).
enum qkv_storage {
  QKV_STORE_F32 = 0,            ///< as they are
  QKV_STORE_BF16 = 1,           ///< half the memory
  QKV_STORE_INT8 = 2,           ///< a quarter
  QKV_STORE_INT8_GROUPS = 3,    ///< 0.28, and closer to F32
  QKV_STORE_REDUCED = 4,        ///< half; rows are rounded to bf16, too
  QKV_STORE_REDUCED_PAIRS = 5,  ///< the same, faster, where the CPU has AVX512-BF16; else QKV_INVALID
  QKV_STORE_Q8 = 6,             ///< the blocks of a GGUF file that has Q8_0, with the bits of F32; else QKV_FORMAT
  QKV_STORE_Q4 = 7              ///< the same for Q4_0 and Q4_1
};

/// A model of one task. Immutable.
typedef struct qkv_model qkv_model;

/// Opens the folder of a model, or ORG/NAME where the cache of the Hugging Face hub has it, never the network. `task`
/// is a qkv_task, `storage` a qkv_storage.
QKV_API int qkv_open(const char* folder, int task, int storage, qkv_model** model);

/// Frees a model; NULL is fine.
QKV_API void qkv_close(qkv_model* model);

/// A short text that identifies what fixes the bits of the model's results: equal fingerprints give equal results, bit
/// for bit (pipelines/fingerprint.h). Reads all weights. Free it.
QKV_API int qkv_fingerprint(const qkv_model* model, char** fingerprint);

/// Numbers of an embedding.
QKV_API int qkv_dim(const qkv_model* model, int64_t* dim);

/// Embeddings of texts, one vector each (a sparse one with its zeros), into `rows`, [count, dim] row by row, of which
/// the caller has room for `capacity` floats; fewer than count * dim are QKV_INVALID. `prompt` goes in front of each
/// text; NULL: the folder's own, if it has one. Texts that are too long for the model are truncated.
QKV_API int qkv_embed(const qkv_model* model, const char* const* texts, int64_t count, const char* prompt, float* rows,
                      int64_t capacity);

/// How well texts answer a query: `scores` [count], in the order of the texts, and `order` [count], the places of the
/// texts from the best one on. Either may be NULL. Higher is better; from 0 to 1 unless the folder says otherwise.
QKV_API int qkv_rank(const qkv_model* model, const char* query, const char* const* texts, int64_t count, float* scores,
                     int64_t* order);

/// A class of a text or a word for a mask, and its probability from 0 to 1; of a regression its number.
typedef struct qkv_label {
  const char* text;
  double probability;
} qkv_label;

/// The `top` (1 or more) most probable classes of a text, in decreasing order; `count`: how many there are, no more
/// than the model has. Free `labels`, which holds their texts.
QKV_API int qkv_classify(const qkv_model* model, const char* text, int64_t top, qkv_label** labels, int64_t* count);

/// The same for two texts read as one sequence, for models trained on pairs; the longer text is truncated first.
QKV_API int qkv_classify_pair(const qkv_model* model, const char* text, const char* second, int64_t top,
                              qkv_label** labels, int64_t* count);

/// How tokens become spans (pipelines/tagger.h). All but QKV_TOKENS join neighbours of one label.
enum qkv_aggregation {
  QKV_TOKENS = 0,   ///< each token
  QKV_SIMPLE = 1,   ///< each token has its most probable label
  QKV_FIRST = 2,    ///< a word has the label of its first token
  QKV_AVERAGE = 3,  ///< a word has the label of the highest mean probability over its tokens
  QKV_MAX = 4       ///< a word has the label of its most confident token
};

/// A part of a text and its label: bytes begin <= i < end of the text, and the label's probability from 0 to 1.
typedef struct qkv_tagged {
  const char* label;
  double score;
  int64_t begin, end;
} qkv_tagged;

/// The labelled spans of a text, in order; `count`: how many there are. `aggregation` is a qkv_aggregation. Free
/// `found`, which holds the labels.
QKV_API int qkv_tag(const qkv_model* model, const char* text, int aggregation, qkv_tagged** found, int64_t* count);

/// A part of a context that answers a question, bytes begin <= i < end of it, and how probable it is, from 0 to 1.
typedef struct qkv_answered {
  const char* text;
  double score;
  int64_t begin, end;
} qkv_answered;

/// The `top` (1 or more) best answers to a question in a context, in decreasing order; `count`: how many there are.
/// Free `answers`, which holds their texts.
QKV_API int qkv_answer(const qkv_model* model, const char* question, const char* context, int64_t top,
                       qkv_answered** answers, int64_t* count);

/// The `top` (1 or more) most probable words for each [MASK] or `<mask>` of a text: words [masks * each], first mask
/// first, in decreasing order; `each` is `top`, or less if the vocabulary is smaller. Free `words`, which holds their
/// texts.
QKV_API int qkv_fill(const qkv_model* model, const char* text, int64_t top, qkv_label** words, int64_t* masks,
                     int64_t* each);

/// The best translation of each text, [count]. `beams`, `max_length` (new tokens): 0 for the folder's. Texts that are
/// too long for the model are split into sentences. Free `translations`, which holds the texts.
QKV_API int qkv_translate(const qkv_model* model, const char* const* texts, int64_t count, int64_t beams,
                          int64_t max_length, char*** translations);

/// How a prompt is tokenized (PromptForm of pipelines/generator.h).
enum qkv_form {
  QKV_TEXT = 0,  ///< with the special tokens that the tokenizer adds
  QKV_RAW = 1,   ///< tokens alone
  QKV_CHAT = 2   ///< as a user's message in the folder's chat template
};

/// How the next token is chosen.
enum qkv_choice {
  QKV_AS_FOLDER = 0,  ///< as generation_config.json says
  QKV_GREEDY = 1,     ///< the most probable one
  QKV_SAMPLE = 2      ///< drawn, with the numbers of qkv_generate_options
};

typedef struct qkv_generate_options {
  int form;                   ///< a qkv_form
  int choice;                 ///< a qkv_choice
  int64_t max_new_tokens;     ///< 0: the folder's, or 256
  int64_t beams;              ///< 0: the folder's; with on_text or QKV_SAMPLE they must be 1
  double repetition_penalty;  ///< above 1: tokens that have occurred become less probable; 0: the folder's
  double temperature;         ///< of QKV_SAMPLE: logits are divided by it; above 0
  double top_p;               ///< of QKV_SAMPLE: the fewest tokens whose probabilities sum to at least this; 1: all
  int64_t top_k;              ///< of QKV_SAMPLE: the k most probable tokens; 0: all
  double min_p;               ///< of QKV_SAMPLE: tokens at least this times as probable as the best; 0: all
  uint64_t seed;              ///< of QKV_SAMPLE: equal seeds draw equal tokens
  /// NULL, or called on the calling thread with each new piece of the text, until the call returns. The piece is the
  /// library's and gone afterwards. Other than 0 ends the text: the call is QKV_OK, its text the pieces so far.
  int (*on_text)(void* context, const char* piece);
  void* context;  ///< what on_text gets
} qkv_generate_options;

/// Continues a prompt. `options` may be NULL. Free `text`.
QKV_API int qkv_generate(const qkv_model* model, const char* prompt, const qkv_generate_options* options, char** text);

/// Types of the numbers of an array.
enum qkv_type {
  QKV_FLOAT32 = 0,
  QKV_FLOAT64 = 1,
  QKV_BFLOAT16 = 2,
  QKV_FLOAT16 = 3,
  QKV_UINT8 = 4,
  QKV_INT32 = 5,
  QKV_INT64 = 6
};

/// Numbers in memory of the caller's, aligned to their size.
typedef struct qkv_array {
  void* data;              ///< the first number; NULL only for an array without numbers
  int type;                ///< a qkv_type
  int rank;                ///< 1 to 16 dimensions
  const int64_t* shape;    ///< [rank]
  const int64_t* strides;  ///< [rank], in numbers, not bytes; NULL: row-major
} qkv_array;

/// Keys j <= i + offset are visible to query i.
enum qkv_causal {
  QKV_NOT_CAUSAL = 0,
  QKV_CAUSAL_TOP_LEFT = 1,     ///< offset 0
  QKV_CAUSAL_BOTTOM_RIGHT = 2  ///< offset key length - query length, as with a cache
};

typedef struct qkv_attention_options {
  double scale;              ///< of the products of queries and keys; 0: 1 / sqrt(head_dim)
  double soft_cap;           ///< cap * tanh(logits / cap), before bias and mask; 0: off
  int causal;                ///< a qkv_causal
  const qkv_array* visible;  ///< QKV_UINT8, 0: hidden; broadcastable to [batch, heads, q_len, k_len]
  const qkv_array* lengths;  ///< QKV_INT32 or QKV_INT64 [batch]: keys below lengths[sequence] are visible
  const qkv_array*
      bias;  ///< added to the logits, of the type of log_sum_exp; broadcastable to [batch, heads, q_len, k_len]
  const qkv_array* log_sum_exp;  ///< output [..., heads, q_len], QKV_FLOAT32 (QKV_FLOAT64 for such queries)
} qkv_attention_options;

/// softmax(mask(scale * q k^T + bias)) v into `out`, exactly (attention.h). q [..., heads, q_len, head_dim], k [...,
/// kv_heads, k_len, head_dim], v [..., kv_heads, k_len, value_dim], out [..., heads, q_len, value_dim]: of one floating
/// type; out may be QKV_FLOAT32 for all but QKV_FLOAT64. The last stride is 1. A query that sees no key has output 0.
/// `options` may be NULL. Outputs share no number with an input or each other.
QKV_API int qkv_attention(const qkv_array* q, const qkv_array* k, const qkv_array* v, const qkv_array* out,
                          const qkv_attention_options* options);

#ifdef __cplusplus
}
#endif
