"""Makes whole.npy and part.npy: masks as include/qkv/attention/dropout.h defines them, by plain Python.

    python make.py        (needs numpy)

Both are u8 [sequences, heads, queries, keys]. whole: [2, 3, 17, 20], p = 0.25, seed 7. part: [2, 3, 4, 21], its first
indices (5, 1, 70, 3), p = 0.3, seed 0x0123456789abcdef.
Philox is checked against the known answers of its authors' library (kat_vectors of Random123 1.14, philox4x32 with 7
rounds).
"""

import pathlib

import numpy as np

MASK = 0xFFFFFFFF


def philox(counter, key, rounds=7):
    c, k = list(counter), [key & MASK, key >> 32]
    for _ in range(rounds):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK, (a >> 32) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


assert philox([0] * 4, 0) == [0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48]
assert philox([MASK] * 4, 2**64 - 1) == [0x5207DDC2, 0x45165E59, 0x4D8EE751, 0x8C52F662]
assert philox([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], 0x299F31D0A4093822) == [
    0x4DFCCABA, 0x190A87F0, 0xC47362BA, 0xB6B5242A]


def word(seed, sequence, head, query, key):
    block = philox([key // 8, query, head, sequence], seed)
    return block[key % 8 // 2] >> 16 * (key % 2) & 0xFFFF


def kept(p, seed, shape, first):
    mask = np.zeros(shape, np.uint8)
    for index in np.ndindex(*shape):
        mask[index] = word(seed, *(int(a) + b for a, b in zip(index, first))) < round((1 - p) * 65536)
    return mask


here = pathlib.Path(__file__).parent
np.save(here / "whole.npy", kept(0.25, 7, (2, 3, 17, 20), (0, 0, 0, 0)))
np.save(here / "part.npy", kept(0.3, 0x0123456789ABCDEF, (2, 3, 4, 21), (5, 1, 70, 3)))
