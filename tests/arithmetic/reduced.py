#!/usr/bin/env python3
"""Reduced precision of docs/arithmetic.md in plain Python: tests/arithmetic/reduced.py FILE, as reference.py does it."""
import functools
import math
import struct
import sys
from fractions import Fraction

import reference
from reference import add, f32, fma, mul, sub

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


def block_values(v, element, keys, weights, start):
    """Hidden keys keep their places, with the weight 0; a subnormal start is added in the end."""
    is_subnormal = abs(start) < LEAST
    products = reduced_sum([(v[j][element], weights.get(j, 0.0)) for j in keys], 0.0 if is_subnormal else start)
    return add(products, start if is_subnormal else 0.0)


def linear(row, weight, bias):
    return [flushed(Fraction(reduced_sum(zip(row, of_out), 0.0)) + Fraction(b)) for of_out, b in zip(weight, bias)]


if __name__ == "__main__":
    reference.attend = functools.partial(
        reference.attend, dot=lambda a, b: reduced_sum(zip(a, b), 0.0), weigh=coarse, add_values=block_values
    )
    reference.linear = linear
    sys.exit(reference.main())
