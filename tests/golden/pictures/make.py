"""Writes the pictures of this folder, and in pixels.safetensors what Pillow reads in them: python make.py (in this folder).

Made with numpy 2.4.6, pillow 13.0.0 and safetensors 0.8.0. Pillow writes the JPEGs; the PNGs, of which it writes few
kinds, are written here. Pixels are random, so that every filter and every bit counts.
"""

import io
import pathlib
import struct
import zlib

import numpy as np
import safetensors.numpy
from PIL import Image, ImageOps

random = np.random.default_rng(17)
pixels = {}


def put(name, data, expected=None):
    pathlib.Path(name).write_bytes(data)
    if expected is None:
        expected = np.array(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
    pixels[name] = np.ascontiguousarray(expected)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
GRAY, RGB, PALETTE, GRAY_ALPHA, RGB_ALPHA = 0, 2, 3, 4, 6
CHANNELS = {GRAY: 1, RGB: 3, PALETTE: 1, GRAY_ALPHA: 2, RGB_ALPHA: 4}


def png(width, height, colour, depth, interlaced=False, before=b"", after=b""):
    """A PNG of random samples, each row by a random filter, in two IDAT chunks."""
    bits = CHANNELS[colour] * depth
    passes = PASSES if interlaced else [(0, 0, 1, 1)]
    rows = b""
    for x, y, dx, dy in passes:
        columns = -(-(width - x) // dx)
        for _ in range(-(-(height - y) // dy) if columns > 0 else 0):
            rows += bytes([random.integers(5)]) + random.bytes(-(-columns * bits // 8))
    data = zlib.compress(rows)
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    if colour == PALETTE:
        before = chunk(b"PLTE", random.bytes(3 * 2**depth)) + before
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + before
        + chunk(b"IDAT", data[: len(data) // 2])
        + chunk(b"IDAT", data[len(data) // 2 :])
        + after
        + chunk(b"IEND", b"")
    )


NAMES = {GRAY: "gray", RGB: "rgb", PALETTE: "palette", GRAY_ALPHA: "gray_alpha", RGB_ALPHA: "rgb_alpha"}
DEPTHS = {GRAY: (1, 2, 4, 8), RGB: (8, 16), PALETTE: (1, 2, 4, 8), GRAY_ALPHA: (8, 16), RGB_ALPHA: (8, 16)}
for colour, depths in DEPTHS.items():
    for depth in depths:
        put(f"{NAMES[colour]}{depth}.png", png(7, 5, colour, depth))
        put(f"{NAMES[colour]}{depth}_interlaced.png", png(11, 9, colour, depth, interlaced=True))
for size in [(1, 1), (1, 9), (9, 1), (2, 3)]:
    put(f"interlaced_{size[0]}x{size[1]}.png", png(*size, RGB, 8, interlaced=True))
put("gray_transparent.png", png(7, 5, GRAY, 8, before=chunk(b"tRNS", struct.pack(">H", 7))))
put("rgb_transparent.png", png(7, 5, RGB, 8, before=chunk(b"tRNS", struct.pack(">HHH", 1, 2, 3))))
put("palette_transparent.png", png(7, 5, PALETTE, 4, before=chunk(b"tRNS", random.bytes(16))))
notes = chunk(b"gAMA", struct.pack(">I", 100000)) + chunk(b"tEXt", b"Comment\0none") + chunk(b"iCCP", b"x\0\0broken")
put("notes.png", png(7, 5, RGB, 8, before=notes, after=chunk(b"zTXt", b"broken") + chunk(b"qkVs", b"unknown")))
# Gray of 16 bits, whose upper 8 are read; Pillow cuts it off at 255.
samples = np.array([[0, 1, 0x7F, 0x80, 0xFF], [0x100, 0x7FFF, 0x8000, 0xFEFF, 0xFFFF]], ">u2")
rows = b"".join(b"\0" + row.tobytes() for row in samples)
header = chunk(b"IHDR", struct.pack(">IIBBBBB", 5, 2, 16, GRAY, 0, 0, 0))
put(
    "gray16.png",
    b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""),
    np.repeat((samples >> 8).astype("u1")[..., None], 3, axis=2),
)


def jpeg(mode, width, height, **options):
    shape = (height, width) if mode == "L" else (height, width, len(mode))
    file = io.BytesIO()
    picture = Image.fromarray(random.integers(0, 256, shape, dtype=np.uint8), mode)
    picture.save(file, "JPEG", **{"quality": 80, "optimize": True, **options})
    return file.getvalue()


def exif(orientation, order="<"):
    entry = struct.pack(order + "HHIHH", 0x0112, 3, 1, orientation, 0)
    other = struct.pack(order + "HHIHH", 0x0100, 3, 1, 6, 0)
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8)
    return b"Exif\0\0" + head + struct.pack(order + "H", 2) + other + entry + struct.pack(order + "I", 0)


put("gray.jpg", jpeg("L", 7, 5))
put("gray_progressive.jpg", jpeg("L", 19, 10, progressive=True))
for name, subsampling in [("444", 0), ("422", 1), ("420", 2)]:
    put(f"rgb_{name}.jpg", jpeg("RGB", 19, 18, subsampling=subsampling))
    put(f"rgb_{name}_progressive.jpg", jpeg("RGB", 18, 19, subsampling=subsampling, progressive=True))
put("rgb_1x1.jpg", jpeg("RGB", 1, 1))
put("rgb_1x33.jpg", jpeg("RGB", 1, 33))
put("rgb_33x1.jpg", jpeg("RGB", 33, 1))
put("rgb_restart.jpg", jpeg("RGB", 35, 9, restart_marker_blocks=1))
put("rgb_kept.jpg", jpeg("RGB", 9, 8, keep_rgb=True))
put("cmyk.jpg", jpeg("CMYK", 9, 8))
cmyk = jpeg("CMYK", 10, 7, quality=95)
adobe = cmyk.index(b"Adobe") + 11  # its transform: 0, CMYK; 2, YCCK
put("ycck.jpg", cmyk[:adobe] + b"\2" + cmyk[adobe + 1 :])
for orientation in range(10):
    order = "<>"[orientation % 2]
    put(f"orientation_{orientation}.jpg", jpeg("RGB", 11, 6, exif=exif(orientation, order)))
put("orientation_6_gray.jpg", jpeg("L", 4, 9, exif=exif(6), progressive=True))
put("orientation_7_cmyk.jpg", jpeg("CMYK", 4, 9, exif=exif(7)))

safetensors.numpy.save_file(pixels, "pixels.safetensors")
