"""Level 2: glofnd.open_clip: the loss beside open_clip's, and open_clip's own training program with it, on tars made here."""

import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest

try:
    import numpy as np
    import open_clip
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch or open_clip is not installed") from None

from open_clip.loss import SigLipLoss

import glofnd
from glofnd.open_clip import GloFNDClipLoss, key_id

B, DIM = 16, 8
MODEL = {"embed_dim": 32, "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16},
         "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1}}
PROGRAM = "import open_clip, sys, glofnd.open_clip; open_clip.add_model_config('tiny-clip.json'); glofnd.open_clip.main()"


def features(seed, rows=B):
    generator = torch.Generator().manual_seed(seed)
    image = torch.randn(rows, DIM, generator=generator)
    text = image + torch.randn(rows, DIM, generator=generator)
    return [torch.nn.functional.normalize(x, dim=1).requires_grad_() for x in (image, text)]


class Loss(unittest.TestCase):
    def gradients(self, loss, image, text, scale, *rest, **named):
        value = loss(image, text, scale, *rest, output_dict=True, **named)["contrastive_loss"]
        return value, torch.autograd.grad(value, (image, text, scale))

    def test_without_a_detector_it_is_open_clips(self):
        image, text = features(0)
        scale = torch.tensor(14.0, requires_grad=True)
        want, grads = self.gradients(open_clip.ClipLoss(), image, text, scale)
        have, own = self.gradients(GloFNDClipLoss(detector="none"), image, text, scale, index=torch.arange(B) - 7)
        self.assertAlmostEqual(have.item(), want.item(), 5)
        for name, x, y in zip(("image", "text", "scale"), own, grads):
            y = y - (y * (image if name == "image" else text)).sum(1, keepdim=True) * (image if name == "image" else text) if name != "scale" else y
            torch.testing.assert_close(x, y.detach(), rtol=1e-4, atol=1e-6)  # ours is along the sphere

    def test_siglip(self):
        image, text = features(0)
        scale, bias = torch.tensor(10.0, requires_grad=True), torch.tensor(-10.0, requires_grad=True)
        want = SigLipLoss()(image, text, scale, bias, output_dict=True)["contrastive_loss"]
        have = GloFNDClipLoss(siglip=True, detector="none")(image, text, scale, bias, output_dict=True, index=torch.arange(B))["contrastive_loss"]
        self.assertAlmostEqual(have.item(), want.item(), 4)
        for x, own, theirs in zip((image, text, scale, bias), *(torch.autograd.grad(y, (image, text, scale, bias)) for y in (have, want))):
            if x.dim():
                theirs = theirs - (theirs * x).sum(1, keepdim=True) * x
            torch.testing.assert_close(own, theirs.detach(), rtol=1e-3, atol=1e-5)
        loss = GloFNDClipLoss(siglip=True, alpha=0.2)
        for seed in range(2):
            loss(*features(seed), scale, bias, index=torch.arange(B))
        self.assertGreater(loss.criterion.stats()["flagged"], 0)

    def test_parts_of_an_accumulated_batch(self):
        """--accum-freq: each part has the features of all; the sum of its gradients, and the state, are those of one large batch."""
        whole, parts = GloFNDClipLoss(alpha=0.2), GloFNDClipLoss(alpha=0.2, accum_freq=4)
        for seed in range(3):
            image, text = features(seed)
            scale = torch.tensor(14.0, requires_grad=True)
            index = torch.arange(B) * 3
            want, grads = self.gradients(whole, image, text, scale, index=index)
            total = torch.zeros(B, DIM)
            for part in index.chunk(4):
                parts.note(part)
            for j in range(4):
                mine = torch.zeros(B, 1, dtype=torch.bool)
                mine[4 * j:4 * j + 4] = True
                mixed = [torch.where(mine, x, x.detach()) for x in (image, text)]
                value = parts(*mixed, scale)
                self.assertAlmostEqual(value.item(), want.item(), 6)
                total += torch.autograd.grad(value, image)[0]
            torch.testing.assert_close(total, grads[0], rtol=1e-5, atol=1e-7)
        state, expected = parts.state_dict(), whole.state_dict()
        for name in expected:
            self.assertTrue(torch.equal(state[name], expected[name]), name)

    def test_a_sample_twice_is_no_negative_of_itself_in_any_epoch(self):
        image, text = features(0)
        index = torch.arange(B)
        index[5] = index[2]
        with torch.no_grad():
            image[5], text[5] = image[2], text[2]
        for siglip in (False, True):
            rest = [torch.tensor(14.0, requires_grad=True)] + ([torch.tensor(-10.0, requires_grad=True)] if siglip else [])
            want = GloFNDClipLoss(siglip=siglip, detector="none")(image, text, *rest, index=index)
            loss = GloFNDClipLoss(siglip=siglip, alpha=0.2, start_epoch=2)
            have = loss(image, text, *rest, index=index)
            self.assertAlmostEqual(have.item(), want.item(), 5)
            for x, y in zip(torch.autograd.grad(have, (image, text, *rest)), torch.autograd.grad(want, (image, text, *rest))):
                torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-6)
            self.assertEqual(loss.criterion.keys().numel(), B)
            whole = GloFNDClipLoss(siglip=siglip, detector="none")(image, text, *rest, index=torch.arange(B))
            self.assertNotAlmostEqual(whole.item(), want.item(), 3)

    def test_ids(self):
        self.assertEqual(key_id("000123", "/a/b/00001.tar"), key_id("000123", "gs://c/00001.tar"))
        self.assertNotEqual(key_id("000123", "00001.tar"), key_id("000123", "00002.tar"))
        self.assertEqual(key_id("000123", "00001.tar"), KNOWN)  # the same in every run, on every machine

    def test_wrong_use(self):
        image, text = features(0)
        loss = GloFNDClipLoss(alpha=0.1)
        with self.assertRaisesRegex(glofnd.ArgumentError, "0 samples are known of a batch of 16: pass index="):
            loss(image, text, torch.tensor(10.0))
        with self.assertRaisesRegex(glofnd.OptionError, "accum_freq is 0"):
            GloFNDClipLoss(accum_freq=0)

    def test_captions_beside_it(self):
        inner = open_clip.CoCaLoss(caption_loss_weight=2.0, clip_loss_weight=0.5)
        image, text = features(0)
        index, logits, labels = torch.arange(B), torch.randn(B, 5, 11), torch.randint(0, 11, (B, 5))
        want = inner(image, text, logits, labels, torch.tensor(10.0), output_dict=True)
        loss = GloFNDClipLoss(detector="none", inner=inner)
        have = loss(image_features=image, text_features=text, logits=logits, labels=labels, logit_scale=torch.tensor(10.0),
                    output_dict=True, index=index)
        self.assertEqual(set(have), set(want))
        for name in want:
            self.assertAlmostEqual(have[name].item(), want[name].item(), 5)


KNOWN = 3518745986772680564


def write_tars(folder, shards=4, samples=16):
    rng = np.random.default_rng(0)
    from PIL import Image
    for t in range(shards):
        with tarfile.open(os.path.join(folder, f"s{t}.tar"), "w") as tar:
            for i in range(samples):
                image = io.BytesIO()
                Image.fromarray(rng.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(image, "png")
                for ending, data in (("png", image.getvalue()), ("txt", f"a picture of number {i % 8}".encode())):
                    entry = tarfile.TarInfo(f"{i:04d}.{ending}")
                    entry.size = len(data)
                    tar.addfile(entry, io.BytesIO(data))
    with open(os.path.join(folder, "tiny-clip.json"), "w") as file:
        json.dump(MODEL, file)


class Program(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            import open_clip_train.main  # noqa: F401
            import webdataset  # noqa: F401
        except ImportError:
            raise unittest.SkipTest("webdataset or what open_clip_train needs is not installed") from None
        cls.place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.place.cleanup)
        cls.folder = cls.place.name
        write_tars(cls.folder)
        with open(os.path.join(cls.folder, "table.csv"), "w") as file:
            file.write("filepath\ttitle\n")
            from PIL import Image
            for i in range(48):
                path = os.path.join(cls.folder, f"{i}.png")
                Image.fromarray(np.random.default_rng(i).integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(path)
                file.write(f"{path}\ta picture of number {i % 8}\n")

    def train(self, name, *arguments, data=None, launcher=(), ours=("--alpha", "0.05", "--threads", "1"), fails=False):
        data = data or ["--train-data", "s{0..3}.tar", "--dataset-type", "webdataset", "--train-num-samples", "64"]
        program = os.path.join(self.folder, "program.py")
        with open(program, "w") as file:
            file.write(PROGRAM)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "OMP_NUM_THREADS": "1"}
        done = subprocess.run([sys.executable, *launcher, program, *ours, "--", *data, "--batch-size", "8", "--workers", "1", "--model", "tiny-clip",
                               "--precision", "fp32", "--logs", "logs", "--name", name, "--warmup", "1", "--device", "cpu", *arguments],
                              cwd=self.folder, env=environment, capture_output=True, text=True, timeout=600)
        (self.assertNotEqual if fails else self.assertEqual)(done.returncode, 0, done.stderr[-3000:])
        return done.stderr + done.stdout

    def state(self, name, epoch):
        checkpoint = torch.load(os.path.join(self.folder, "logs", name, "checkpoints", f"epoch_{epoch}.pt"), weights_only=True)
        return checkpoint["glofnd"]

    def test_webdataset(self):
        text = self.train("plain", "--epochs", "2")
        self.assertIn("GloFND Epoch: 1 flagged", text)
        state = self.state("plain", 2)
        keys = {key_id(f"{i:04d}", f"s{t}.tar") for t in range(4) for i in range(16)}
        self.assertLessEqual(set(state["criterion.keys"].tolist()), keys)
        self.assertGreater(state["criterion.keys"].numel(), 48)
        again = self.train("again", "--epochs", "3", "--resume", "logs/plain/checkpoints/epoch_2.pt")
        self.assertNotIn("Start epoch 1", again)
        later = self.state("again", 3)
        where = torch.searchsorted(later["criterion.keys"], state["criterion.keys"])
        grown = later["criterion.clock"][:, where] - state["criterion.clock"]
        self.assertTrue(((grown >= 0) & (grown <= 2)).all())
        self.assertGreater(int(grown.sum()), 0)
        kept = self.train("kept", "--epochs", "2", "--resume", "logs/plain/checkpoints/epoch_2.pt")
        self.assertIn("resuming checkpoint", kept)

    def test_accumulated_batches(self):
        text = self.train("accumulated", "--epochs", "2", "--accum-freq", "2")
        self.assertIn("GloFND Epoch: 1 flagged", text)
        self.assertLessEqual(int(self.state("accumulated", 2)["criterion.clock"].max()), 4)

    def test_siglip(self):
        self.assertIn("GloFND Epoch: 0 flagged", self.train("siglip", "--epochs", "1", "--siglip"))

    def test_a_table(self):
        self.train("table", "--epochs", "2", data=["--train-data", "table.csv", "--dataset-type", "csv"])
        state = self.state("table", 2)
        self.assertEqual(state["criterion.keys"].tolist(), list(range(48)))
        self.assertTrue((state["criterion.clock"] == 2).all())

    def test_two_ranks(self):
        text = self.train("ranks", "--epochs", "1", launcher=("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"))
        self.assertIn("GloFND Epoch: 0 flagged", text)
        self.assertGreater(self.state("ranks", 1)["criterion.keys"].numel(), 48)

    def test_a_checkpoint_of_another_program_is_refused(self):
        self.train("before", "--epochs", "1")
        path = os.path.join(self.folder, "logs", "before", "checkpoints", "epoch_1.pt")
        checkpoint = torch.load(path, weights_only=True)
        del checkpoint["glofnd"]
        torch.save(checkpoint, path)
        text = self.train("after", "--epochs", "2", "--resume", path, fails=True)
        self.assertIn("saved by open_clip_train alone", text)

    def test_command_line(self):
        for ours, expected in ((("--aplha", "0.1"), r"--aplha: expected --OPTION VALUE"), (("--loss", "clip"), "--loss: expected"), (("--alpha",), "--alpha")):
            self.assertRegex(self.train("wrong", ours=ours, fails=True), expected)
        done = subprocess.run([sys.executable, "-m", "glofnd.open_clip"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)})
        self.assertTrue(done.returncode == 1 and re.search("usage: python -m glofnd.open_clip", done.stderr), done.stderr)


if __name__ == "__main__":
    unittest.main()
