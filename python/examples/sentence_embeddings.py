"""sentence-transformers: a loss with its interface, in place of MultipleNegativesRankingLoss. The column `label` is the index."""

import argparse

from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.modules import BoW, Dense
from torch import nn

from glofnd.torch import GloFNDLoss

parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int, default=512)
parser.add_argument("--epochs", type=int, default=2)
options = parser.parse_args()


class GloFNDRankingLoss(nn.Module):
    def __init__(self, model, num_samples, **options):
        super().__init__()
        self.model = model
        self.criterion = GloFNDLoss(num_samples, "clip", learn_tau=False, tau=0.05, **options)

    def forward(self, sentence_features, labels):
        anchor, positive = (self.model(features)["sentence_embedding"] for features in sentence_features)
        return self.criterion(anchor, positive, labels)


topics = [f"{noun} {verb}" for noun in ("cat", "dog", "car", "tree") for verb in ("sleeps", "runs", "shines", "grows")]
sentences = [f"{topics[i % len(topics)]} number{i}" for i in range(options.samples)]
words = sorted({word for sentence in sentences for word in sentence.split()} | {"quickly", "slowly"})
model = SentenceTransformer(modules=[BoW(words), Dense(len(words), 32)], device="cpu")
dataset = Dataset.from_dict({
    "anchor": sentences, "positive": [sentence + " quickly" for sentence in sentences], "label": list(range(options.samples))})
# loss = MultipleNegativesRankingLoss(model)
loss = GloFNDRankingLoss(model, len(dataset), alpha=0.05)
arguments = SentenceTransformerTrainingArguments(
    "out", num_train_epochs=options.epochs, per_device_train_batch_size=32, dataloader_drop_last=True, report_to=[], use_cpu=True,
    save_strategy="no", logging_steps=4, disable_tqdm=True, learning_rate=1e-2)
trainer = SentenceTransformerTrainer(model, arguments, train_dataset=dataset, loss=loss)
result = trainer.train()
print(f"loss {result.training_loss:.4f}  thresholds", [round(x, 3) for x in loss.criterion.thresholds()[0].tolist()])
