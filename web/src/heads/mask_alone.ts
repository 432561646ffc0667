// A head beside what its mask alone would give: each query's weight spread evenly over the keys that it sees.

// The share of the weights that goes elsewhere, a mean over the queries that see several keys; null: none does.
export function beyond_mask(weights: readonly (readonly number[])[], causal: boolean, left_out: readonly number[]): number | null {
  const parts = weights.flatMap((row, i) => {
    const seen = row.filter((_, j) => !left_out.includes(j) && (!causal || j <= i));
    if (seen.length < 2) return [];
    return [seen.reduce((sum, weight) => sum + Math.abs(weight - 1 / seen.length), 0) / 2];
  });
  return parts.length === 0 ? null : parts.reduce((sum, part) => sum + part, 0) / parts.length;
}
