"""What benchmarks beside other systems share: turns of each in one run, and their medians."""

import statistics
import time


def seconds(action):
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def medians(actions, rounds):
    """{name: median of the seconds of its action}, one turn of each after the other."""
    times = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            times[name].append(seconds(action))
    return {name: statistics.median(turns) for name, turns in times.items()}
