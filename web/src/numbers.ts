// Numbers as text, as the program prints them.

// Whole numbers as they are, others with five decimals, very large and small ones with a power of ten.
export function number_text(value: number, decimals = 5): string {
  if (value === 0) return "0";
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value < 0 ? "-inf" : "inf";
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-4) return value.toExponential(Math.min(decimals, 5));
  if (Math.abs(value - Math.round(value)) <= 1e-13 * Math.max(1, size)) return value.toFixed(0);
  return value.toFixed(decimals);
}

// For a cell of a matrix: short, the whole number is shown when the cell is chosen.
export function cell_text(value: number): string {
  const size = Math.abs(value);
  if (size > 0 && size < 0.0005) return value < 0 ? "-0.000" : "0.000";
  return number_text(value, size >= 1000 ? 1 : 3);
}

// A difference with its sign.
export const signed_text = (text: string, difference: number): string => (difference > 0 ? `+${text}` : text);

// With its sign: what `now` is more than `then`.
export function change_text(now: number, then: number, decimals = 5): string {
  const change = Object.is(now, then) ? 0 : now - then;
  return signed_text(number_text(change, decimals), change);
}

export function share_text(share: number): string {
  return `${(100 * share).toFixed(share !== 0 && Math.abs(share) < 0.1 ? 1 : 0)} %`;
}

export const whole = (count: number): string => Math.round(count).toLocaleString("en");

export const counted = (count: number, one: string, many = `${one}s`): string => `${whole(count)} ${count === 1 ? one : many}`;

export function clamp(value: number, least: number, most: number): number {
  return Math.max(least, Math.min(most, Number.isFinite(value) ? Math.trunc(value) : least));
}

// What a row of weights adds up to; 1 if it differs from 1 by rounding: five decimals of f64, fewer of f32.
export function row_sum(row: readonly number[], tolerance = 5e-4): number {
  const sum = row.reduce((total, weight) => total + weight, 0);
  return Math.abs(sum - 1) < tolerance ? 1 : sum;
}

// The largest size of finite numbers; 0 of none.
export function largest(values: Iterable<number>): number {
  let most = 0;
  for (const value of values) if (Number.isFinite(value)) most = Math.max(most, Math.abs(value));
  return most;
}
