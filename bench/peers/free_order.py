"""What the fixed order of sums costs: ours in turns with the same kernels compiled with -fassociative-math.

python bench/peers/free_order.py --free PROGRAM --threads N [--seconds S] [--out FILE]

PROGRAM is bench/attention_turns of that build. Its results may be wrong: the compiler also rearranges what rounds the
exponent of exp, so each row says the error.
"""

import argparse
import tempfile
import time
from pathlib import Path

from side_by_side import take_processors, write

TURN = 0.03  # seconds of one before the other has its turn


def best_milliseconds(engines, seconds):
    best = {name: float("inf") for name in engines}
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for name, engine in engines.items():
            best[name] = min(best[name], 1e3 * engine.best_seconds(TURN))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--free", type=Path, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each case")
    parser.add_argument("--out", help="a file for report.py")
    options = parser.parse_args()
    take_processors(parser, options.threads)
    from cases import Arrays, all_cases
    from engines import DRIVER, Driver, Ours

    rows = []
    with tempfile.TemporaryDirectory() as fixed, tempfile.TemporaryDirectory() as free:
        drivers = {"fixed": Driver(fixed, DRIVER), "free": Driver(free, options.free)}
        for case in all_cases():
            if case.section not in ("models", "training"):
                continue
            arrays = Arrays(case)
            engines = {name: Ours(driver, arrays, options.threads) for name, driver in drivers.items()}
            errors = {name: arrays.largest_error(engine.output()) for name, engine in engines.items()}
            best = best_milliseconds(engines, options.seconds)
            rows.append({"section": case.section, "name": case.name, "milliseconds": best, "errors": errors})
            print(f"{case.section} {case.name}: {best['free'] / best['fixed']:.3f} of the time, {errors}", flush=True)
    write(options.out, "order", options, rows=rows)


if __name__ == "__main__":
    main()
