/* SQL functions of SQLite: embed(text), a blob of floats, and rank(query, text), how well the text answers the query.
   Models are opened once, from QKV_EMBED_MODEL and QKV_RANK_MODEL.

     cc -shared -fPIC qkv_sqlite.c $(pkg-config --cflags --libs qkv) -o qkv_sqlite.so
     QKV_RANK_MODEL=FOLDER sqlite3 -cmd '.load ./qkv_sqlite' notes.db 'SELECT text FROM notes ORDER BY rank(?, text)'  */
#include <qkv/qkv.h>
#include <sqlite3ext.h>
#include <stdlib.h>
SQLITE_EXTENSION_INIT1

/* The model of a function, from its first call on; SQLite closes it with the connection. */
typedef struct {
  const char* variable;
  int task;
  qkv_model* model;
} Opened;

static void forget(void* opened) {
  qkv_close(((Opened*)opened)->model);
  sqlite3_free(opened);
}

static const qkv_model* model_of(sqlite3_context* context) {
  Opened* opened = sqlite3_user_data(context);
  if (opened->model == NULL) {
    const char* folder = getenv(opened->variable);
    if (folder == NULL) {
      sqlite3_result_error(context, "the environment names no folder of a model for it", -1);
    } else if (qkv_open(folder, opened->task, QKV_STORE_F32, &opened->model) != QKV_OK) {
      sqlite3_result_error(context, qkv_message(), -1);
    }
  }
  return opened->model;
}

static void embed(sqlite3_context* context, int count, sqlite3_value** values) {
  const qkv_model* model = model_of(context);
  const char* text = (const char*)sqlite3_value_text(values[0]);
  float* row = NULL;
  int64_t dim = 0;
  (void)count;
  if (model == NULL || text == NULL) return; /* of NULL: NULL */
  if (qkv_dim(model, &dim) == QKV_OK && (row = sqlite3_malloc64(sizeof(float) * (uint64_t)dim)) == NULL) {
    sqlite3_result_error_nomem(context);
  } else if (row == NULL || qkv_embed(model, &text, 1, NULL, row, dim) != QKV_OK) {
    sqlite3_result_error(context, qkv_message(), -1);
    sqlite3_free(row);
  } else {
    sqlite3_result_blob64(context, row, sizeof(float) * (uint64_t)dim, sqlite3_free);
  }
}

static void rank(sqlite3_context* context, int count, sqlite3_value** values) {
  const qkv_model* model = model_of(context);
  const char* query = (const char*)sqlite3_value_text(values[0]);
  const char* text = (const char*)sqlite3_value_text(values[1]);
  float score;
  (void)count;
  if (model == NULL || query == NULL || text == NULL) return;
  if (qkv_rank(model, query, &text, 1, &score, NULL) != QKV_OK) {
    sqlite3_result_error(context, qkv_message(), -1);
  } else {
    sqlite3_result_double(context, score);
  }
}

static int add(sqlite3* database, const char* name, int arguments, const char* variable, int task,
               void (*function)(sqlite3_context*, int, sqlite3_value**)) {
  Opened* opened = sqlite3_malloc64(sizeof(Opened));
  if (opened == NULL) return SQLITE_NOMEM;
  opened->variable = variable;
  opened->task = task;
  opened->model = NULL;
  return sqlite3_create_function_v2(database, name, arguments, SQLITE_UTF8 | SQLITE_DETERMINISTIC, opened, function,
                                    NULL, NULL, forget);
}

int sqlite3_qkvsqlite_init(sqlite3* database, char** message, const sqlite3_api_routines* api) {
  int status;
  (void)message;
  SQLITE_EXTENSION_INIT2(api);
  status = add(database, "embed", 1, "QKV_EMBED_MODEL", QKV_EMBED, embed);
  return status == SQLITE_OK ? add(database, "rank", 2, "QKV_RANK_MODEL", QKV_RANK, rank) : status;
}
