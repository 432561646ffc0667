"""Runs every case on one number of threads, ours and theirs in turns, and writes what was measured as JSON.

python bench/peers/race.py --threads N [--only PATTERN] [--seconds S] [--out FILE]
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from side_by_side import take_processors

TURN = 0.03  # seconds of one engine before the next has its turn
LEAST_ROUNDS = 4
REST = 0.12  # between turns on several threads: those of ONNX Runtime look for work some time after it


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--only", default="", help="cases whose section and name match this pattern")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each case")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    take_processors(parser, arguments.threads)
    return arguments


def race(case, driver, arguments):
    """One case: {"gflops" or "gbytes", "errors", "skipped"} by the engine's name."""
    from cases import TOLERANCE, Arrays
    from engines import Ours, peers_of

    arrays = Arrays(case)
    running, errors, skipped = [Ours(driver, arrays, arguments.threads)], {}, {}
    for peer in peers_of(case):
        try:
            running.append(peer(arrays, arguments.threads))
            running[-1].run()
        except Exception as error:  # noqa: BLE001 - each library has its own for what it cannot do
            if running[-1].name == peer.name:
                running.pop()
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            skipped[peer.name] = lines[-1][:160] if lines else type(error).__name__
    for engine in list(running):
        errors[engine.name] = engine_error = arrays.largest_error(engine.output())
        if not engine_error <= TOLERANCE[case.dtype]:
            running.remove(engine)
            skipped[engine.name] = f"wrong by {engine_error:.1e}"

    best = {engine.name: float("inf") for engine in running}
    read, rounds, begin = float("inf"), 0, time.perf_counter()
    while rounds < LEAST_ROUNDS or time.perf_counter() - begin < arguments.seconds:
        for engine in running:
            if arguments.threads > 1:
                time.sleep(REST)
            best[engine.name] = min(best[engine.name], engine.best_seconds(TURN))
        if case.section == "decode":
            read = min(read, running[0].read_seconds(TURN))
        rounds += 1
    result = {
        "section": case.section,
        "name": case.name,
        "shape": case.shape,
        "speeds": {name: 1e-9 * arrays.work() / seconds for name, seconds in best.items()},
        "milliseconds": {name: 1e3 * seconds for name, seconds in best.items()},
        "errors": errors,
        "skipped": skipped,
        "rounds": rounds,
    }
    if case.section == "decode":
        result["read"] = 1e-9 * arrays.work() / read
    return result


def torch_matmul():
    """GFLOP/s of torch's plain matrix product: tells whether its libraries know this processor."""
    import torch
    from engines import Peer

    class Product(Peer):
        threads = torch.get_num_threads()
        matrix = torch.rand(1024, 1024)

        def run(self):
            self.matrix @ self.matrix

    return 2e-9 * 1024**3 / Product().best_seconds(1)


def processor_name():
    said = dict(re.findall(r"^(\S[^:\t]*)\s*: (.*)$", Path("/proc/cpuinfo").read_text().split("\n\n")[0], re.M))
    if "model name" not in said:
        return os.uname().machine
    return f"{said['model name']} (family {said['cpu family']}, model {said['model']})"


def busy_processors(seconds=2):
    """Kept busy by others, on average of so many seconds."""

    def ticks():
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
        return sum(fields), fields[3] + fields[4]  # all, idle

    before = ticks()
    time.sleep(seconds)
    after = ticks()
    return os.cpu_count() * (1 - (after[1] - before[1]) / (after[0] - before[0]))


def main():
    arguments = parse()
    busy = busy_processors()
    from cases import all_cases
    from engines import PEERS, Driver

    report = {
        "threads": arguments.threads,
        "processor": processor_name(),
        "processors": os.cpu_count(),
        "busy": busy,
        "date": time.strftime("%Y-%m-%d"),
        "versions": {peer.name: version(peer.package) for peer in PEERS},
        "cases": [],
    }
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(folder)
        report["bandwidth"] = driver.number("bandwidth", arguments.threads)
        report["peak"] = driver.number("peak", arguments.threads)
        report["torch_matmul"] = torch_matmul()
        for case in all_cases():
            if not re.search(arguments.only, f"{case.section} {case.name}"):
                continue
            result = race(case, driver, arguments)
            report["peak"] = max(report["peak"], driver.number("peak", arguments.threads))
            report["cases"].append(result)
            speeds = "  ".join(f"{name} {speed:.1f}" for name, speed in result["speeds"].items())
            print(f"{case.name:20} {case.shape:24} {speeds}", file=sys.stderr, flush=True)
    text = json.dumps(report, indent=1)
    if arguments.out:
        arguments.out.write_text(text)
    else:
        print(text)


main()
