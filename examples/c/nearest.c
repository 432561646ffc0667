/* How close texts are to a query: the cosine of their embeddings, by a model of sentence-transformers.

     cc -std=c99 nearest.c $(pkg-config --cflags --libs qkv) -lm -o nearest
     ./nearest FOLDER QUERY TEXT...  */
#include <math.h>
#include <qkv/qkv.h>
#include <stdio.h>
#include <stdlib.h>

static double cosine(const float* a, const float* b, int64_t dim) {
  double product = 0, square_a = 0, square_b = 0;
  int64_t i;
  for (i = 0; i < dim; ++i) {
    product += (double)a[i] * b[i];
    square_a += (double)a[i] * a[i];
    square_b += (double)b[i] * b[i];
  }
  return product / sqrt(square_a * square_b);
}

int main(int argc, char** argv) {
  const char* const* texts = (const char* const*)argv + 2; /* the query is the first */
  const int64_t count = argc - 2;
  qkv_model* model = NULL;
  float* rows = NULL;
  int64_t dim = 0, i;
  int status;
  if (argc < 4) {
    fprintf(stderr, "usage: nearest FOLDER QUERY TEXT...\n");
    return 2;
  }
  status = qkv_open(argv[1], QKV_EMBED, QKV_STORE_F32, &model);
  if (status == QKV_OK) status = qkv_dim(model, &dim);
  if (status == QKV_OK && (rows = malloc(sizeof(float) * (size_t)(count * dim))) == NULL) abort();
  if (status == QKV_OK) status = qkv_embed(model, texts, count, NULL, rows, count * dim);
  if (status == QKV_OK) {
    for (i = 1; i < count; ++i) printf("%.4f %s\n", cosine(rows, rows + i * dim, dim), texts[i]);
  } else {
    fprintf(stderr, "nearest: %s\n", qkv_message());
  }
  free(rows);
  qkv_close(model);
  return status;
}
