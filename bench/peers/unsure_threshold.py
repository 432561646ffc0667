#!/usr/bin/env python3
"""From which score on a model's translations are to be trusted, measured on validation pairs.

  bench/peers/unsure_threshold.py VALID.tsv <TRANSLATIONS

TRANSLATIONS is what `qkv translate --json` writes for the first column of VALID.tsv. A translation is poor if its chrF beside the
second column is below 40. Of all bounds on the log-probability a token, in hundredths, the highest is printed below which four of
five translations are poor. Put it into the model's generation_config.json as "unsure_below". Needs sacrebleu."""
import argparse
import json
import sys

import sacrebleu

POOR = 40.0
SHARE = 0.8


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("valid", help="pairs, a tab between source and reference")
    options = parser.parse_args()
    with open(options.valid, encoding="utf-8") as file:
        references = [line.rstrip("\n").split("\t")[1] for line in file]
    found = [json.loads(line)["translations"][0] for line in sys.stdin]
    if len(found) != len(references):
        sys.exit(f"unsure_threshold: {len(found)} translations for {len(references)} pairs")
    judged = [(one["score"], sacrebleu.sentence_chrf(one["text"], [reference]).score < POOR)
              for one, reference in zip(found, references)]
    for bound in (-hundredths / 100 for hundredths in range(1000)):
        below = [is_poor for score, is_poor in judged if score < bound]
        if not below:
            sys.exit("unsure_threshold: no bound has four poor translations of five below it")
        if sum(below) >= SHARE * len(below):
            break
    poor = sum(is_poor for _, is_poor in judged)
    print(f"unsure_below {bound}")
    print(f"of {len(judged)} translations {len(below)} are below it, {sum(below)} of these poor; {poor} of all are poor")


if __name__ == "__main__":
    main()
