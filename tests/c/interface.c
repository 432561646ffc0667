/* What qkv.h promises to programs that were compiled with an earlier version of the same MAJOR.MINOR: signatures,
   numbers and the layout of structs, written down a second time. A line that does not compile is a change that needs a
   new MINOR. */
#include <stddef.h>

#include "qkv/qkv.h"

#define SAME(name, holds) typedef char name[(holds) ? 1 : -1]
#define AT(type, field, place) SAME(type##_##field, offsetof(type, field) == (place))

SAME(status,
     QKV_OK == 0 && QKV_INVALID == 1 && QKV_FORMAT == 2 && QKV_IO == 3 && QKV_NO_MEMORY == 4 && QKV_INTERNAL == 5);
SAME(task, QKV_EMBED == 0 && QKV_RANK == 1 && QKV_CLASSIFY == 2 && QKV_FILL == 3 && QKV_TRANSLATE == 4 &&
               QKV_GENERATE == 5 && QKV_TAG == 6 && QKV_ANSWER == 7);
SAME(storage, QKV_STORE_F32 == 0 && QKV_STORE_BF16 == 1 && QKV_STORE_INT8 == 2 && QKV_STORE_INT8_GROUPS == 3 &&
                  QKV_STORE_REDUCED == 4 && QKV_STORE_REDUCED_PAIRS == 5 && QKV_STORE_Q8 == 6 && QKV_STORE_Q4 == 7);
SAME(form, QKV_TEXT == 0 && QKV_RAW == 1 && QKV_CHAT == 2);
SAME(choice, QKV_AS_FOLDER == 0 && QKV_GREEDY == 1 && QKV_SAMPLE == 2);
SAME(type, QKV_FLOAT32 == 0 && QKV_FLOAT64 == 1 && QKV_BFLOAT16 == 2 && QKV_FLOAT16 == 3 && QKV_UINT8 == 4 &&
               QKV_INT32 == 5 && QKV_INT64 == 6);
SAME(causal, QKV_NOT_CAUSAL == 0 && QKV_CAUSAL_TOP_LEFT == 1 && QKV_CAUSAL_BOTTOM_RIGHT == 2);

SAME(aggregation, QKV_TOKENS == 0 && QKV_SIMPLE == 1 && QKV_FIRST == 2 && QKV_AVERAGE == 3 && QKV_MAX == 4);

AT(qkv_tagged, label, 0);
AT(qkv_tagged, score, 8);
AT(qkv_tagged, begin, 16);
AT(qkv_tagged, end, 24);
SAME(size_of_tagged, sizeof(qkv_tagged) == 32);

AT(qkv_answered, text, 0);
AT(qkv_answered, score, 8);
AT(qkv_answered, begin, 16);
AT(qkv_answered, end, 24);
SAME(size_of_answered, sizeof(qkv_answered) == 32);

AT(qkv_label, text, 0);
AT(qkv_label, probability, 8);
SAME(size_of_label, sizeof(qkv_label) == 16);

AT(qkv_generate_options, form, 0);
AT(qkv_generate_options, choice, 4);
AT(qkv_generate_options, max_new_tokens, 8);
AT(qkv_generate_options, beams, 16);
AT(qkv_generate_options, repetition_penalty, 24);
AT(qkv_generate_options, temperature, 32);
AT(qkv_generate_options, top_p, 40);
AT(qkv_generate_options, top_k, 48);
AT(qkv_generate_options, min_p, 56);
AT(qkv_generate_options, seed, 64);
AT(qkv_generate_options, on_text, 72);
AT(qkv_generate_options, context, 80);
SAME(size_of_generate_options, sizeof(qkv_generate_options) == 88);

AT(qkv_array, data, 0);
AT(qkv_array, type, 8);
AT(qkv_array, rank, 12);
AT(qkv_array, shape, 16);
AT(qkv_array, strides, 24);
SAME(size_of_array, sizeof(qkv_array) == 32);

AT(qkv_attention_options, scale, 0);
AT(qkv_attention_options, soft_cap, 8);
AT(qkv_attention_options, causal, 16);
AT(qkv_attention_options, visible, 24);
AT(qkv_attention_options, lengths, 32);
AT(qkv_attention_options, bias, 40);
AT(qkv_attention_options, log_sum_exp, 48);
SAME(size_of_attention_options, sizeof(qkv_attention_options) == 56);

const char* (*const message)(void) = qkv_message;
const char* (*const version)(void) = qkv_version;
int (*const set_threads)(int) = qkv_set_threads;
void (*const free_block)(void*) = qkv_free;
int (*const open_model)(const char*, int, int, qkv_model**) = qkv_open;
void (*const close_model)(qkv_model*) = qkv_close;
int (*const fingerprint)(const qkv_model*, char**) = qkv_fingerprint;
int (*const dim)(const qkv_model*, int64_t*) = qkv_dim;
int (*const embed)(const qkv_model*, const char* const*, int64_t, const char*, float*, int64_t) = qkv_embed;
int (*const rank)(const qkv_model*, const char*, const char* const*, int64_t, float*, int64_t*) = qkv_rank;
int (*const classify)(const qkv_model*, const char*, int64_t, qkv_label**, int64_t*) = qkv_classify;
int (*const classify_pair)(const qkv_model*, const char*, const char*, int64_t, qkv_label**,
                           int64_t*) = qkv_classify_pair;
int (*const tag)(const qkv_model*, const char*, int, qkv_tagged**, int64_t*) = qkv_tag;
int (*const reply)(const qkv_model*, const char*, const char*, int64_t, qkv_answered**, int64_t*) = qkv_answer;
int (*const fill)(const qkv_model*, const char*, int64_t, qkv_label**, int64_t*, int64_t*) = qkv_fill;
int (*const translate)(const qkv_model*, const char* const*, int64_t, int64_t, int64_t, char***) = qkv_translate;
int (*const generate)(const qkv_model*, const char*, const qkv_generate_options*, char**) = qkv_generate;
int (*const attention)(const qkv_array*, const qkv_array*, const qkv_array*, const qkv_array*,
                       const qkv_attention_options*) = qkv_attention;
