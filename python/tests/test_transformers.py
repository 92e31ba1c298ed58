"""Level 2: GloFNDCallback in the Trainer of Hugging Face: epochs, checkpoints, resuming, the log."""

import os
import tempfile
import unittest

try:
    import torch
    from transformers import Trainer, TrainerCallback, TrainingArguments
    import accelerate  # noqa: F401
except ImportError:
    raise unittest.SkipTest("transformers or accelerate is not installed") from None

from torch import nn

import glofnd
from glofnd.torch import GloFNDLoss, WithIndex
from glofnd.transformers import GloFNDCallback

SAMPLES, BATCH = 64, 16


class Outside(Trainer):
    """A loss that is no part of the model."""

    criterion = None

    def compute_loss(self, model, inputs, return_outputs=False, **_):
        loss = self.criterion(model(inputs["x"]), model(inputs["x"] * 1.01 + 0.1), inputs["index"])
        return (loss, {}) if return_outputs else loss


class Noted(TrainerCallback):
    def __init__(self):
        self.logs, self.epochs = [], []

    def on_log(self, args, state, control, logs=None, **_):
        self.logs.append(dict(logs))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(12, 6)

    def forward(self, x):
        return self.net(x)


def trainer(folder, *, epochs=4, criterion=None, callback=True, others=(), **arguments):
    torch.manual_seed(0)
    x = torch.randn(SAMPLES, 12)
    names = dict(num_train_epochs=epochs, per_device_train_batch_size=BATCH, save_strategy="epoch", logging_steps=4, report_to=[],
                 use_cpu=True, disable_tqdm=True, learning_rate=1e-2, remove_unused_columns=False, dataloader_drop_last=True)
    criterion = criterion or GloFNDLoss(SAMPLES, "simclr", alpha=0.1)
    result = Outside(Net(), TrainingArguments(folder, **{**names, **arguments}), train_dataset=WithIndex([{"x": row} for row in x]),
                     callbacks=[*others, *([GloFNDCallback(criterion)] if callback is True else [callback] if callback else [])])
    result.criterion = criterion
    return result


class Callback(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.out = os.path.join(self.folder, "out")

    def same(self, one, other):
        self.assertEqual(set(one), set(other))
        for name in one:
            self.assertTrue(torch.equal(one[name], other[name]), name)

    def test_a_resumed_run_ends_with_the_same_state(self):
        whole = trainer(self.out)
        whole.train()
        self.assertEqual(whole.criterion.epoch, 4 - 1)
        self.assertIn("glofnd.pt", os.listdir(os.path.join(self.out, "checkpoint-8")))
        for place in ("other", "out"):  # the folder of the checkpoint is not that of the new run
            again = trainer(os.path.join(self.folder, place))
            again.train(resume_from_checkpoint=os.path.join(self.out, "checkpoint-8"))
            self.same(again.criterion.state_dict(), whole.criterion.state_dict())

    def test_the_last_checkpoint_is_found(self):
        whole = trainer(self.out)
        whole.train()
        again = trainer(self.out, epochs=5)
        again.train(resume_from_checkpoint=True)
        self.assertEqual(int(again.criterion.state_dict()["clock"].min()), 5)

    def test_a_checkpoint_without_thresholds_is_refused(self):
        trainer(self.out, callback=False).train()
        checkpoint = os.path.join(self.out, "checkpoint-8")
        with self.assertRaisesRegex(glofnd.FileError, 'saved without GloFNDCallback.*resume="ignore"'):
            trainer(self.out).train(resume_from_checkpoint=checkpoint)
        criterion = GloFNDLoss(SAMPLES, "simclr", alpha=0.1)
        again = trainer(self.out, criterion=criterion, callback=GloFNDCallback(criterion, resume="ignore"))
        again.train(resume_from_checkpoint=checkpoint)
        self.assertEqual(int(criterion.state_dict()["clock"].max()), 2)

    def test_the_log_has_statistics_for_all_callbacks(self):
        first, last = Noted(), Noted()
        run = trainer(self.out, others=[first])
        run.add_callback(last)
        run.train()
        for logs in (first.logs[0], last.logs[0], run.state.log_history[0]):
            self.assertGreater(logs["glofnd_flagged_share"], 0)
            self.assertLess(logs["glofnd_lambda_mean"], 1)
        criterion = GloFNDLoss(SAMPLES, "simclr", alpha=0.1)
        run = trainer(self.out, criterion=criterion, callback=GloFNDCallback(criterion, log=False))
        run.train()
        self.assertNotIn("glofnd_lambda_mean", run.state.log_history[0])

    def test_epochs_reach_the_loss(self):
        criterion = GloFNDLoss(SAMPLES, "simclr", alpha=0.1, start_epoch=2)
        run = trainer(self.out, criterion=criterion, epochs=3)
        run.train()
        shares = [x["glofnd_flagged_share"] for x in run.state.log_history if "glofnd_flagged_share" in x]
        self.assertEqual([share > 0 for share in shares], [False, False, True])

    def test_several_losses(self):
        losses = {"a": GloFNDLoss(SAMPLES), "b": nn.Sequential(GloFNDLoss(SAMPLES))}
        from glofnd.transformers import load_state, save_state
        z = torch.randn(BATCH, 6)
        losses["a"](z, z + 0.1, torch.arange(BATCH))
        losses["b"][0](z, z + 0.3, torch.arange(BATCH))
        path = os.path.join(self.folder, "state.pt")
        save_state(losses, path)
        others = {"a": GloFNDLoss(SAMPLES), "b": nn.Sequential(GloFNDLoss(SAMPLES))}
        load_state(others, path)
        self.same(others["a"].state_dict(), losses["a"].state_dict())
        self.same(others["b"].state_dict(), losses["b"].state_dict())
        with self.assertRaisesRegex(glofnd.StateError, "thresholds of 'a', which this loss does not have"):
            load_state({"b": others["b"]}, path)

    def test_wrong_use(self):
        for text, call in (("expected a module that holds a GloFNDLoss", lambda: GloFNDCallback("loss")),
                           ("resume is 'never'", lambda: GloFNDCallback(GloFNDLoss(8), resume="never"))):
            with self.assertRaisesRegex(glofnd.ArgumentError, text):
                call()


if __name__ == "__main__":
    unittest.main()
