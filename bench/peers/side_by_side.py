"""What benchmarks beside other systems share: turns of each in one run, and their medians."""

import json
import os
import statistics
import subprocess
import time


def take_processors(parser, threads):
    """As many as threads, for this process. Before any library counts the processors, or starts threads."""
    processors = sorted(os.sched_getaffinity(0))
    if not 1 <= threads <= len(processors):
        parser.error(f"--threads {threads}: there are {len(processors)} processors")
    os.sched_setaffinity(0, processors[:threads])
    os.environ["OMP_NUM_THREADS"] = str(threads)


def seconds(action):
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


# In front of each turn: threads of libgomp look for work for some milliseconds, and would take a processor from the next.
REST = 0.02


def medians(actions, rounds):
    """{name: median of the seconds of its action}, one turn of each after the other."""
    times = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            time.sleep(REST)
            times[name].append(seconds(action))
    return {name: statistics.median(turns) for name, turns in times.items()}


def reduced_precisions(program):
    """Those of our products in bf16 that its target has."""
    targets = json.loads(subprocess.check_output([program, "info", "--json"]))["targets"]
    selected = next(target["name"] for target in targets if target["selected"])
    return ("reduced", "reduced_pairs") if selected == "avx512-bf16" else ("reduced",)


def write(path, race, options, **results):
    """For report.py: what RACE measured, on so many threads. Nothing without a path."""
    if path:
        with open(path, "w") as file:
            json.dump({"race": race, "threads": options.threads, **results}, file, indent=1)
