"""sentence-transformers: one line in place of MultipleNegativesRankingLoss, and a callback. --resume continues after a kill."""

import argparse

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.modules import BoW, Dense

from glofnd.sentence_transformers import GloFNDCallback, GloFNDRankingLoss

parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int, default=512)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--wordnet", default="/usr/share/wordnet/data.noun", help="a file of WordNet, as in Debian's wordnet-base")
parser.add_argument("--resume", action="store_true")
options = parser.parse_args()


def pairs(path):
    """Words and their definitions: a synset of several words has several pairs, false negatives of each other."""
    with open(path, encoding="latin-1") as file:
        for head, definition in (line.split(" | ", 1) for line in file if not line.startswith("  ")):
            fields = head.split()
            for word in fields[4:4 + 2 * int(fields[3], 16):2] if int(fields[3], 16) > 3 else ():
                yield word.replace("_", " ").lower(), definition.split(";")[0].strip().lower()


anchors, positives = zip(*list(pairs(options.wordnet))[:options.samples])
torch.manual_seed(0)  # of the model, which begins with random weights
words = sorted({word for text in anchors + positives for word in text.split()})
model = SentenceTransformer(modules=[BoW(words), Dense(len(words), 32)], device="cpu")
dataset = Dataset.from_dict({"anchor": anchors, "positive": positives})
loss = GloFNDRankingLoss(model, alpha=0.01)  # loss = MultipleNegativesRankingLoss(model)
arguments = SentenceTransformerTrainingArguments(
    "out", num_train_epochs=options.epochs, per_device_train_batch_size=32, report_to=[], use_cpu=True, save_strategy="epoch",
    logging_steps=4, disable_tqdm=True, learning_rate=1e-2)
trainer = SentenceTransformerTrainer(model, arguments, train_dataset=dataset, loss=loss, callbacks=[GloFNDCallback(loss)])
trainer.train(resume_from_checkpoint=options.resume)
print("thresholds", [round(x, 4) for x in loss.thresholds(list(positives[::9][:5]))[:, 0].tolist()])
