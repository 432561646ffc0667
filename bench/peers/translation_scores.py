#!/usr/bin/env python3
"""BLEU (sacrebleu) of three ways to translate without a model, and of translations that are given:

  copy     the source itself
  words    each word by the word that goes along with it most often in the training pairs (Dice coefficient)
  nearest  the translation of the training pair whose English side shares most of its words (Dice coefficient of the bags)

  bench/peers/translation_scores.py --train TRAIN.tsv --test TEST.tsv [--words 3,20] [NAME=FILE ...]

FILE holds a translation a line, for each line of TEST.tsv. --words keeps the test pairs with so many English words.
Needs sacrebleu."""
import argparse
import collections
import re

import sacrebleu

TOKEN = re.compile(r"\w+|[^\w\s]")


def words(text):
    return TOKEN.findall(text.lower())


def read_pairs(path):
    with open(path, encoding="utf-8") as file:
        return [tuple(line.rstrip("\n").split("\t")) for line in file]


def dictionary(pairs):
    """{English word: the word of the other language with the highest 2 n(both) / (n(one) + n(other))}"""
    ours, theirs, both = (collections.Counter() for _ in range(3))
    for english, other in pairs:
        left, right = set(words(english)), set(words(other))
        ours.update(left)
        theirs.update(right)
        both.update((e, o) for e in left for o in right)
    best = {}
    for (e, o), count in both.items():
        best[e] = max(best.get(e, (0, "")), (2 * count / (ours[e] + theirs[o]), o))
    return {e: o for e, (_, o) in best.items()}


def word_by_word(pairs, sources):
    known = dictionary(pairs)
    for source in sources:
        text = " ".join(known.get(word, word) for word in words(source))
        text = re.sub(r" ([,.;:?!)])", r"\1", text)
        yield text[:1].upper() + text[1:]


def nearest(pairs, sources):
    bags = [collections.Counter(words(english)) for english, _ in pairs]
    sizes = [sum(bag.values()) for bag in bags]
    holders = collections.defaultdict(list)
    for i, bag in enumerate(bags):
        for word, count in bag.items():
            holders[word].append((i, count))
    for source in sources:
        bag = collections.Counter(words(source))
        size = sum(bag.values())
        shared = collections.Counter()
        for word, count in bag.items():
            for i, theirs in holders[word]:
                shared[i] += min(count, theirs)
        best = max(shared, key=lambda i: (2 * shared[i] / (size + sizes[i]), -i), default=0)
        yield pairs[best][1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--words", default="1,1000")
    parser.add_argument("given", nargs="*", metavar="NAME=FILE")
    arguments = parser.parse_args()
    least, most = map(int, arguments.words.split(","))
    train, test = read_pairs(arguments.train), read_pairs(arguments.test)
    kept = [i for i, (english, _) in enumerate(test) if least <= len(english.split()) <= most]
    sources, references = [test[i][0] for i in kept], [test[i][1] for i in kept]

    systems = {"copy": sources, "words": list(word_by_word(train, sources)), "nearest": list(nearest(train, sources))}
    for name, path in (entry.split("=", 1) for entry in arguments.given):
        with open(path, encoding="utf-8") as file:
            lines = [line.rstrip("\n") for line in file]
        if len(lines) != len(test):
            raise SystemExit(f"{path}: {len(lines)} lines; {arguments.test} has {len(test)}")
        systems[name] = [lines[i] for i in kept]
    metric = sacrebleu.BLEU()
    print(f"{len(kept)} pairs")
    for name, outputs in systems.items():
        print(f"{name:8} {metric.corpus_score(outputs, [references]).score:5.1f}")
    print(metric.get_signature())


if __name__ == "__main__":
    main()
