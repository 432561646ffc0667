"""Makes t5.csv: the buckets of T5's relative positions, computed as transformers' T5Attention does, in torch.

    python make.py        (needs torch 2.15)

Rows: buckets, bidirectional, max_distance, j - p, bucket; a row stands for all distances up to that of the next one.
"""

import csv
import math
import pathlib

import torch


def bucket(distance, bidirectional, buckets, max_distance):
    """distance = j - p; transformers' T5Attention._relative_position_bucket."""
    result = torch.zeros_like(distance)
    if bidirectional:
        buckets //= 2
        result = result + (distance > 0).long() * buckets
        distance = torch.abs(distance)
    else:
        distance = -torch.min(distance, torch.zeros_like(distance))
    exact = buckets // 2
    large = exact + (
        torch.log(distance.float() / exact) / math.log(max_distance / exact) * (buckets - exact)
    ).long()
    large = torch.min(large, torch.full_like(large, buckets - 1))
    return result + torch.where(distance < exact, distance, large)


distances = torch.arange(-3000, 3001)
with open(pathlib.Path(__file__).with_name("t5.csv"), "w", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    for bidirectional in (True, False):
        for buckets, max_distance in ((32, 128), (4, 17), (8, 17), (8, 64), (32, 512), (64, 128), (40, 1000)):
            found = bucket(distances, bidirectional, buckets, max_distance).tolist()
            for i, (distance, number) in enumerate(zip(distances.tolist(), found)):
                if i == 0 or number != found[i - 1]:
                    writer.writerow((buckets, int(bidirectional), max_distance, distance, number))
