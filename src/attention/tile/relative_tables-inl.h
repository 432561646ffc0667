// Learned numbers per relative position: T5, clipped and Swin tables, and Shaw's rows (relative_rows-inl.h). Included
// once per CPU target.

#if defined(QKV_ATTENTION_TILE_RELATIVE_TABLES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_RELATIVE_TABLES_INL_H_
#undef QKV_ATTENTION_TILE_RELATIVE_TABLES_INL_H_
#else
#define QKV_ATTENTION_TILE_RELATIVE_TABLES_INL_H_
#endif

#include "attention/tile/logit_tile-inl.h"
#include "attention/tile/relative_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T, int kVectors>
struct RelativeTables {
  static bool is_on(const AttentionTask& task) { return task.common->table_count != 0; }

  // `relative`: prepared for the queries of the tile.
  static void apply(const LogitTile<T, kVectors>& tile, const RelativeRows<T, kVectors>& relative) {
    for (int t = 0; t < tile.task.common->table_count; ++t) {
      const TableBias& table = tile.task.tables[t];
      if (table.row_length > 0) {
        relative.add_to(tile.at, tile.key);
      } else if (table.coordinates == nullptr) {
        add_line(table, tile);
      } else {
        add_window(table, tile);
      }
    }
  }

  static void apply(const LogitRow<T>& row) {
    for (int t = 0; t < row.task.common->table_count; ++t) {
      const TableBias& table = row.task.tables[t];
      if (table.row_length > 0) {
        add_relative_row(table, row);
      } else if (table.coordinates == nullptr) {
        add_line(table, row);
      } else {
        add_window(table, row);
      }
    }
  }

 private:
  using Index = hwy::MakeSigned<T>;

  static void add_line(const TableBias& table, const LogitTile<T, kVectors>& tile) {
    const Tag<T> d;
    const T* values = reinterpret_cast<const T*>(table.values);
    const std::int64_t position = tile.begin + tile.task.offset;
    for (int r = 0; r < kTileRows; ++r) {
      for (int c = 0; c < kVectors; ++c) {
        const T* from = values + table.line_index(position + c * kLanes<T> - (tile.key + r), kLanes<T>);
        T* to = tile.at + (r * kVectors + c) * kLanes<T>;
        hn::Store(hn::Add(hn::Load(d, to), hn::LoadU(d, from)), d, to);
      }
    }
  }

  static void add_line(const TableBias& table, const LogitRow<T>& row) {
    const T* values = reinterpret_cast<const T*>(table.values);
    for (std::int64_t j = row.first; j < row.last; ++j) {
      row.at[j] += values[table.line_index(row.task.offset - (row.chunk + j), 1)];
    }
  }

  static void add_window(const TableBias& table, const LogitTile<T, kVectors>& tile) {
    const Tag<T> d;
    const hn::RebindToSigned<Tag<T>> index;
    const T* values = reinterpret_cast<const T*>(table.values);
    const Index* coordinates = reinterpret_cast<const Index*>(table.coordinates);
    for (int r = 0; r < kTileRows; ++r) {
      const auto of_key = hn::Set(index, coordinates[tile.key + r] - static_cast<Index>(table.center));
      for (int c = 0; c < kVectors; ++c) {
        const auto of_query = hn::LoadU(index, coordinates + tile.begin + tile.task.offset + c * kLanes<T>);
        T* to = tile.at + (r * kVectors + c) * kLanes<T>;
        const Vec<T> bias = hn::GatherIndex(d, values, hn::Sub(of_query, of_key));
        hn::Store(hn::Add(hn::Load(d, to), bias), d, to);
      }
    }
  }

  static void add_window(const TableBias& table, const LogitRow<T>& row) {
    const T* values = reinterpret_cast<const T*>(table.values);
    const Index* coordinates = reinterpret_cast<const Index*>(table.coordinates);
    for (std::int64_t j = row.first; j < row.last; ++j) {
      row.at[j] += values[coordinates[row.task.offset] - coordinates[row.chunk + j] + table.center];
    }
  }
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
