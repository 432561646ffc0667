// A PNG of at most 256 colours: the most frequent ones that differ enough stay, others become the nearest of these.
import { deflateSync } from "node:zlib";

const kMost = 256;
const kAlike = 60; // of squares of differences

function checksum(bytes) {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; ++bit) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type), data]);
  const sizes = Buffer.alloc(8);
  sizes.writeUInt32BE(data.length, 0);
  sizes.writeUInt32BE(checksum(body), 4);
  return Buffer.concat([sizes.subarray(0, 4), body, sizes.subarray(4)]);
}

// `pixels`: red, green and blue of each as one number, row by row.
export function small_png(width, height, pixels) {
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const distance = (a, b) => ((a >> 16) - (b >> 16)) ** 2 + (((a >> 8) & 255) - ((b >> 8) & 255)) ** 2 + ((a & 255) - (b & 255)) ** 2;
  const palette = [];
  for (const [color] of [...counts].sort((a, b) => b[1] - a[1])) {
    if (palette.length < kMost && !palette.some((one) => distance(one, color) < kAlike)) palette.push(color);
  }
  const places = new Map(palette.map((color, at) => [color, at]));
  const place_of = (color) => {
    if (!places.has(color)) {
      const nearest = palette.reduce((best, one, at) => (distance(one, color) < distance(palette[best], color) ? at : best), 0);
      places.set(color, nearest);
    }
    return places.get(color);
  };
  const rows = Buffer.alloc((width + 1) * height); // each begins with its filter, none
  pixels.forEach((pixel, i) => (rows[i + Math.floor(i / width) + 1] = place_of(pixel)));
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 3, 0, 0, 0], 8);
  return Buffer.concat([
    Buffer.from("\x89PNG\r\n\x1a\n", "latin1"),
    chunk("IHDR", header),
    chunk("PLTE", Buffer.from(palette.flatMap((color) => [color >> 16, (color >> 8) & 255, color & 255]))),
    chunk("IDAT", deflateSync(rows, { level: 9 })),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}
