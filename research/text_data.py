"""Makes text_pairs.npz for text_pairs.py: captions of Multi30k and pairs of STS-B as numbers of words.

    python text_data.py TEXT MODEL OUT      TEXT has multi30k/*.en.gz and stsb/*.csv; MODEL is a folder of all-MiniLM-L6-v2
                                            (vocab.txt; model.safetensors: its weights go to OUT as float16)

Words that do not occur in these texts are left out of the vocabulary: 0 is padding, and a caption has at most 32 numbers.
"""
import csv
import gzip
import sys

import numpy as np
from safetensors.numpy import load_file
from tokenizers import BertWordPieceTokenizer

LENGTH = 32


def main(text: str, model: str, out: str) -> None:
    tokenizer = BertWordPieceTokenizer(f"{model}/vocab.txt", lowercase=True)
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding(length=LENGTH, pad_id=0)

    def numbers(lines: list[str]) -> np.ndarray:
        return np.array([code.ids for code in tokenizer.encode_batch(lines)], dtype=np.int32)

    arrays = {}
    for split in ("train", "val", "test_2016"):
        captions = [numbers(gzip.open(f"{text}/multi30k/{split}.{k}.en.gz", "rt", encoding="utf-8").read().splitlines())
                    for k in range(1, 6)]
        arrays[split] = np.stack(captions, axis=1)
    for split in ("dev", "test"):
        with open(f"{text}/stsb/{split}.csv", encoding="utf-8", newline="") as file:
            rows = [row for row in csv.reader(file)]
        arrays[f"sts_{split}_a"], arrays[f"sts_{split}_b"] = numbers([row[0] for row in rows]), numbers([row[1] for row in rows])
        arrays[f"sts_{split}_y"] = np.array([float(row[2]) for row in rows])
    used = np.unique(np.concatenate([x.ravel() for name, x in arrays.items() if not name.endswith("_y")]))
    assert used[0] == 0
    for name, x in arrays.items():
        if not name.endswith("_y"):
            arrays[name] = np.searchsorted(used, x).astype(np.uint16)
    weights = {}
    for name, x in load_file(f"{model}/model.safetensors").items():
        if name.startswith("embeddings.word"):
            x = x[used]
        if name != "embeddings.position_ids" and not name.startswith("pooler."):
            weights["minilm." + name] = x[:LENGTH].astype(np.float16) if "position" in name else x.astype(np.float16)
    np.savez(out, words=len(used), **arrays, **weights)
    print({name: x.shape for name, x in arrays.items()}, len(used), "words")


if __name__ == "__main__":
    main(*sys.argv[1:])
