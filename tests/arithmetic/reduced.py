#!/usr/bin/env python3
"""Reduced precision of docs/arithmetic.md in plain Python: tests/arithmetic/reduced.py FILE, as reference.py does it."""
import math
import struct
import sys
from fractions import Fraction

import reference
from reference import add, f32, finish, fma, merge, mul, sub

LEAST = 2.0**-126


def rounded(x):
    """To bf16, ties to even, by whole numbers."""
    if abs(x) < LEAST:
        return 0.0
    word = struct.unpack("I", struct.pack("f", x))[0]
    half, rest = divmod(word, 0x10000)
    half += rest > 0x8000 or (rest == 0x8000 and half % 2 == 1)
    return struct.unpack("f", struct.pack("I", half * 0x10000))[0]


def flushed(exact):
    """A sum to f32, where it is not below 2^-126 as rounded to 24 bits."""
    if exact == 0:
        return 0.0
    scaled = Fraction(exact)
    power = 0
    while abs(scaled) < 1:
        scaled, power = scaled * 2**64, power + 64
    while abs(scaled) >= 2**64:
        scaled, power = scaled / 2**64, power - 64
    # Of f64 that f32 does not see: f64 of a fraction is rounded once, an odd last bit marks what is left.
    value = float(scaled)
    if Fraction(value) != scaled and struct.unpack("Q", struct.pack("d", value))[0] % 2 == 0:
        value = math.nextafter(value, math.inf if scaled > Fraction(value) else -math.inf)
    result = math.ldexp(f32(value), -power)
    return 0.0 if abs(result) < LEAST else result


def reduced_sum(pairs, start):
    pairs = [(Fraction(rounded(a)), Fraction(rounded(b))) for a, b in pairs]
    total = start
    for first in range(0, len(pairs), 32):
        halves = [0.0, 0.0]
        for i, (a, b) in enumerate(pairs[first:first + 32]):
            halves[i % 2] = flushed(a * b + Fraction(halves[i % 2]))
        both = flushed(Fraction(halves[0]) + Fraction(halves[1]))
        total = flushed(Fraction(total) + Fraction(both))
    return total


def coarse(x):
    if x < -126:
        return 0.0
    magic = 1.5 * 2**21
    whole = sub(add(x, magic), magic)
    r = sub(x, whole)
    growth = mul(fma(float.fromhex("0x1.ebfbeep-3"), r, float.fromhex("0x1.62e430p-1")), r)
    quarters = int(whole * 4)
    power = math.ldexp(reference.QUARTERS[quarters % 4], quarters // 4)
    return fma(power, growth, power)


def attend(q, k, v, scale, visible):
    unit, size = f32(abs(scale) * 1.4426950408889634), len(v[0])
    if scale < 0:
        q = [-x for x in q]
    whole = (0.0, 0.0, [0.0] * size)
    for chunk in range(0, len(k), 1024):
        m, margin, s, o = 0.0, -math.inf, 0.0, [0.0] * size
        for begin in range(chunk, min(chunk + 1024, len(k)), 128):
            end = min(begin + 128, len(k))
            block, weights = 0.0, {}
            for step in range(begin, end, 4):
                keys = [j for j in range(step, min(step + 4, end)) if visible(j)]
                x = [mul(reduced_sum(zip(k[j], q), 0.0), unit) for j in keys]
                if keys and sub(max(x), m) > margin:
                    factor = 1.0 if margin == -math.inf else reference.exp2(sub(m, max(x)))
                    m, margin, s, block = max(x), 8.0, mul(s, factor), mul(block, factor)
                    weights = {j: mul(w, factor) for j, w in weights.items()}
                    o = [mul(element, factor) for element in o]
                for j, y in zip(keys, x):
                    weights[j] = coarse(sub(y, m))
                    block = add(block, weights[j])
            s = add(s, block)
            o = [add(reduced_sum([(v[j][e], weights.get(j, 0.0)) for j in range(begin, end)],
                                 0.0 if abs(o[e]) < LEAST else o[e]),
                     o[e] if abs(o[e]) < LEAST else 0.0) for e in range(size)]
        whole = merge(whole, (m, s, o))
    return finish(whole, size)


def linear(row, weight, bias):
    return [flushed(Fraction(reduced_sum(zip(row, of_out), 0.0)) + Fraction(b)) for of_out, b in zip(weight, bias)]


if __name__ == "__main__":
    reference.attend, reference.linear = attend, linear
    sys.exit(reference.main())
