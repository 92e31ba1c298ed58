"""Level 2: glofnd.sentence_transformers beside the losses of sentence-transformers, in its trainer: columns, ids of texts, evaluation,
Matryoshka, cached batches, checkpoints, several datasets, two ranks. The model is a tiny transformer made here."""

import os
import socket
import subprocess
import sys
import tempfile
import unittest
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import torch
    from datasets import Dataset, DatasetDict
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.losses import (CachedMultipleNegativesRankingLoss, MatryoshkaLoss, MultipleNegativesRankingLoss,
                                              MultipleNegativesSymmetricRankingLoss)
    import accelerate  # noqa: F401
except ImportError:
    raise unittest.SkipTest("sentence-transformers, datasets or accelerate is not installed") from None

import glofnd
from glofnd.sentence_transformers import CachedGloFNDRankingLoss, GloFNDCallback, GloFNDRankingLoss, text_ids

WORDS = [f"w{i}" for i in range(60)]
DIM = 16
_place = tempfile.TemporaryDirectory()


def setUpModule():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(["[PAD]", "[UNK]", *WORDS])}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(_place.name)
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=64, hidden_size=DIM, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
                         max_position_embeddings=32, initializer_range=0.5)).save_pretrained(_place.name)


def tearDownModule():
    _place.cleanup()


def model(dropout=False):
    try:
        from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    except ImportError:
        from sentence_transformers.models import Pooling, Transformer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        body = Transformer(_place.name)
    result = SentenceTransformer(modules=[body, Pooling(DIM, "mean")], device="cpu")
    for name, parameter in result.named_parameters():
        parameter.requires_grad_("pooler" not in name)  # it is not used
    if not dropout:
        for module in result.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
    return result


def text(seed, words=5):
    generator = torch.Generator().manual_seed(seed)
    return " ".join(WORDS[i] for i in torch.randint(0, len(WORDS), (words,), generator=generator).tolist())


def table(rows=64, negatives=0, first=0):
    columns = {"anchor": [text(first + i, 3 + i % 4) for i in range(rows)],
               "positive": [text(first + i, 3 + i % 4) + " " + text(first + i + 1000, 2) for i in range(rows)]}
    for k in range(negatives):
        columns[f"negative_{k + 1}"] = [text(first + i + 2000 * (k + 1)) for i in range(rows)]
    return columns


def tokenized(of, columns):
    return [(getattr(of, "preprocess", None) or of.tokenize)(texts) for texts in columns.values()]


def gradient(loss, of, columns):
    of.zero_grad()
    value = loss(tokenized(of, columns), None)
    value.backward()
    return value.item(), torch.cat([p.grad.reshape(-1) for p in of.parameters() if p.grad is not None])


class Value(unittest.TestCase):
    def same(self, ours, theirs, negatives=0, rows=12):
        of, columns = model().train(), table(rows, negatives)
        want, grad = gradient(theirs(of), of, columns)
        have, own = gradient(ours(of), of, columns)
        self.assertAlmostEqual(have, want, 5)
        torch.testing.assert_close(own, grad, rtol=2e-4, atol=1e-6)

    def test_without_a_detector_it_is_theirs(self):
        for negatives in (0, 1, 3):
            for scale in (20.0, 7.0):
                with self.subTest(negatives=negatives, scale=scale):
                    self.same(lambda m: GloFNDRankingLoss(m, scale, detector="none"), lambda m: MultipleNegativesRankingLoss(m, scale), negatives)

    def test_both_directions(self):
        self.same(lambda m: GloFNDRankingLoss(m, directions="both", detector="none"), MultipleNegativesSymmetricRankingLoss)
        self.same(lambda m: GloFNDRankingLoss(m, directions=("query_to_doc", "doc_to_query"), detector="none"), MultipleNegativesSymmetricRankingLoss)

    def test_cached(self):
        for negatives in (0, 2):
            self.same(lambda m: CachedGloFNDRankingLoss(m, mini_batch_size=5, detector="none"),
                      lambda m: CachedMultipleNegativesRankingLoss(m, mini_batch_size=5), negatives)
            self.same(lambda m: CachedGloFNDRankingLoss(m, mini_batch_size=5, alpha=0.2), lambda m: GloFNDRankingLoss(m, alpha=0.2), negatives)

    def test_cached_thresholds_are_those_of_the_whole_batch(self):
        of = model().train()
        whole, parts = GloFNDRankingLoss(of, alpha=0.2), CachedGloFNDRankingLoss(of, mini_batch_size=5, alpha=0.2)
        for step in range(3):
            columns = table(12, 1, 12 * (step % 2))
            gradient(whole, of, columns), gradient(parts, of, columns)
        one, other = whole.criteria[str(DIM)].state_dict(), parts.criteria[str(DIM)].state_dict()
        self.assertTrue(torch.equal(one["keys"], other["keys"]))
        self.assertTrue(torch.equal(one["clock"], other["clock"]))
        torch.testing.assert_close(one["lambda"], other["lambda"], rtol=1e-4, atol=1e-5)

    def test_matryoshka_has_thresholds_of_its_own_for_every_dimension(self):
        for cached in (False, True):
            of, columns = model().train(), table(12, 1)
            make = (lambda m, **k: CachedGloFNDRankingLoss(m, mini_batch_size=5, **k)) if cached else GloFNDRankingLoss
            theirs = (lambda m: CachedMultipleNegativesRankingLoss(m, mini_batch_size=5)) if cached else MultipleNegativesRankingLoss
            want, grad = gradient(MatryoshkaLoss(of, theirs(of), [16, 8, 4]), of, columns)
            have, own = gradient(MatryoshkaLoss(of, make(of, detector="none"), [16, 8, 4]), of, columns)
            self.assertAlmostEqual(have, want, 4)
            torch.testing.assert_close(own, grad, rtol=5e-4, atol=2e-6)
            inner = make(of, alpha=0.2)
            loss = MatryoshkaLoss(of, inner, [16, 8, 4])
            for _ in range(2):
                gradient(loss, of, columns)
            self.assertEqual(sorted(inner.criteria), ["16", "4", "8"])
            state = {name: criterion.state_dict() for name, criterion in inner.criteria.items()}
            for name in state:
                self.assertTrue((state[name]["clock"][0] == 2).all())
                self.assertTrue(torch.equal(state[name]["keys"], state["16"]["keys"]))
            self.assertFalse(torch.equal(state["8"]["lambda"], state["16"]["lambda"]))

    def test_equal_texts_are_no_negatives(self):
        """A batch with a text twice has the loss of a batch in which that pair is left out, by hand."""
        of = model().train()
        columns = table(6, 1)
        columns["positive"][3] = columns["positive"][1]   # a document twice
        columns["anchor"][5] = columns["anchor"][0]       # a query twice
        columns["negative_1"][2] = columns["positive"][4]  # a negative that is another's positive
        columns["negative_1"][4] = columns["positive"][4]  # and its own
        with torch.no_grad():
            anchor, positive, negative = (torch.nn.functional.normalize(of(x)["sentence_embedding"], dim=1) for x in tokenized(of, columns))
            s = 20 * anchor @ torch.cat([positive, negative]).T
            s[4, 8] = s[4, 10] = -torch.inf
            dropped = torch.zeros(6, 12)
            for row, column in ((1, 3), (3, 1), (0, 5), (5, 0)):
                s[row, column], dropped[row, column] = -torch.inf, 1
            negatives = 11 - 2.0 * (torch.arange(6) == 4)
            weight = (negatives / (negatives - dropped.sum(1)))[:, None].repeat(1, 12)  # those kept stand for all
            weight[torch.arange(6), torch.arange(6)] = 1
            want = torch.nn.functional.cross_entropy(s + weight.log(), torch.arange(6)).item()
        expected = gradient(GloFNDRankingLoss(of, detector="none"), of, columns)[1]
        for options in ({"detector": "none"}, {"alpha": 0.0}, {"alpha": 0.2, "start_epoch": 3}, {"detector": "none", "start_epoch": 3},
                        {"alpha": 0.2, "start_epoch": 3, "learn_tau": True}):
            with self.subTest(**options):
                have, grad = gradient(GloFNDRankingLoss(of, **options), of, columns)
                self.assertAlmostEqual(have, want, 5)
                torch.testing.assert_close(grad, expected, rtol=1e-4, atol=1e-6)

    def test_thresholds_are_learned_before_the_start(self):
        """The steps before start_epoch move thresholds, and gradients of a learned temperature, as those of a loss without equal texts do."""
        of = model().train()
        columns = table(12, 1)
        states, slopes = [], []
        for start in (3, 0):
            loss = GloFNDRankingLoss(of, alpha=0.2, start_epoch=start, learn_tau=True)
            for _ in range(2):
                loss.zero_grad()
                gradient(loss, of, columns)
            states.append(loss.criteria[str(DIM)].state_dict())
            slopes.append(loss.criteria[str(DIM)].log_scale.grad.item())
        self.assertTrue(torch.equal(states[0]["lambda"], states[1]["lambda"]))
        self.assertTrue((states[0]["clock"][0] == 2).all())
        of.zero_grad()
        plain = GloFNDRankingLoss(of, detector="none", learn_tau=True)
        gradient(plain, of, columns)
        self.assertAlmostEqual(slopes[0], plain.criteria[str(DIM)].log_scale.grad.item(), 5)
        before = {key: x.clone() for key, x in states[0].items()}
        loss = GloFNDRankingLoss(of.eval(), alpha=0.2, start_epoch=3)
        gradient(loss, of, columns)
        self.assertEqual(loss.criteria[str(DIM)].keys().numel(), 0)
        self.assertTrue(all(torch.equal(before[key], states[0][key]) for key in before))

    def test_a_batch_of_one(self):
        of = model().train()
        self.assertEqual(gradient(GloFNDRankingLoss(of), of, table(1))[0], 0.0)

    def test_half_precision(self):
        of, columns = model().train(), table(12, 1)
        with torch.autocast("cpu", torch.bfloat16):
            have = GloFNDRankingLoss(of, detector="none")(tokenized(of, columns)).item()
            want = MultipleNegativesRankingLoss(of)(tokenized(of, columns), None).item()
        self.assertAlmostEqual(have, want, 1)


class Ids(unittest.TestCase):
    def test_padding_and_neighbours_do_not_matter(self):
        of = model()
        texts = [text(i, 2 + i % 5) for i in range(20)]
        ids = text_ids(tokenized(of, {"": texts})[0])
        self.assertEqual(ids.unique().numel(), 20)
        self.assertTrue((ids >= 0).all())
        for some in (texts[:1], texts[3:9], texts[::-1]):
            self.assertEqual(text_ids(tokenized(of, {"": some})[0]).tolist(), [ids[texts.index(x)].item() for x in some])

    def test_known_numbers(self):
        features = {"input_ids": torch.tensor([[5, 6, 7, 0], [0, 5, 6, 7], [7, 6, 5, 0]]),
                    "attention_mask": torch.tensor([[1, 1, 1, 0], [0, 1, 1, 1], [1, 1, 1, 0]])}
        ids = text_ids(features)
        self.assertEqual(ids.tolist()[:2], [KNOWN, KNOWN])  # in every run; padding on the left, too
        self.assertNotEqual(ids[2], ids[0])                 # the order of words matters
        flat = {"input_ids": torch.tensor([5, 6, 7, 7, 6, 5]), "offsets": torch.tensor([0, 3])}
        self.assertEqual(text_ids(flat).tolist(), [ids[0].item(), ids[2].item()])
        packed = {"input_ids": torch.tensor([[5, 6, 7, 7, 6, 5]]), "cu_seq_lens_q": torch.tensor([0, 3, 6], dtype=torch.int32)}
        self.assertEqual(text_ids(packed).tolist(), [ids[0].item(), ids[2].item()])

    def test_features_without_tokens(self):
        counts = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 2.0], [0.0, 1.0, 2.0]])
        ids = text_ids({"sentence_embedding": counts, "name": "x"})
        self.assertEqual(ids[0], ids[2])
        self.assertNotEqual(ids[0], ids[1])
        with self.assertRaisesRegex(glofnd.ArgumentError, "no ids can be made of the features"):
            text_ids({"x": 1})


KNOWN = 2130674581475381835


class Training(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.out = os.path.join(place.name, "out")

    def trainer(self, loss, of, data=None, callback=True, **arguments):
        names = dict(num_train_epochs=2, per_device_train_batch_size=8, report_to=[], use_cpu=True, save_strategy="no", logging_steps=4,
                     disable_tqdm=True, learning_rate=1e-2)
        data = Dataset.from_dict(table(32, 1)) if data is None else data
        evaluation = arguments.pop("eval_dataset", None)
        return SentenceTransformerTrainer(of, SentenceTransformerTrainingArguments(self.out, **{**names, **arguments}), train_dataset=data,
                                          eval_dataset=evaluation, loss=loss, callbacks=[GloFNDCallback(loss)] if callback else [])

    def states(self, loss):
        return {name: criterion.state_dict() for name, criterion in loss.criteria.items()}

    def same(self, one, other):
        self.assertEqual(set(one), set(other))
        for name in one:
            for key in one[name]:
                self.assertTrue(torch.equal(one[name][key], other[name][key]), (name, key))

    def test_resumed_runs_end_with_the_same_thresholds(self):
        for wrap in (lambda of, loss: loss, lambda of, loss: MatryoshkaLoss(of, loss, [16, 4])):
            runs = []
            for resume in (None, os.path.join(self.out, "checkpoint-4")):
                of = model()
                inner = GloFNDRankingLoss(of, alpha=0.1)
                self.trainer(wrap(of, inner), of, save_strategy="epoch").train(resume_from_checkpoint=resume)
                runs.append(self.states(inner))
            self.assertIn("glofnd.pt", os.listdir(os.path.join(self.out, "checkpoint-4")))
            self.same(*runs)
            self.assertEqual(int(runs[0]["16"]["clock"][0].min()), 2)
            self.assertEqual(int(runs[0]["16"]["epoch"]), 1)

    def test_evaluation_moves_no_threshold(self):
        of = model()
        loss = GloFNDRankingLoss(of, alpha=0.1)
        trainer = self.trainer(loss, of, eval_dataset=Dataset.from_dict(table(16, 1, first=8)))
        trainer.train()
        before = self.states(loss)
        self.assertGreater(trainer.evaluate()["eval_loss"], 0)
        self.same(self.states(loss), before)

    def test_the_log(self):
        of = model()
        trainer = self.trainer(GloFNDRankingLoss(of, alpha=0.1), of)
        trainer.train()
        last = [line for line in trainer.state.log_history if "glofnd_flagged_share" in line][-1]
        self.assertTrue(0 < last["glofnd_flagged_share"] < 0.5 and -1 <= last["glofnd_lambda_mean"] <= 1)

    def test_what_people_use(self):
        pairs = Dataset.from_dict(table(32))
        for name, data, arguments in (("bf16", None, {"bf16": True}), ("accumulation", None, {"gradient_accumulation_steps": 2}),
                                      ("pairs", pairs, {}), ("last batch of one", Dataset.from_dict(table(33)), {}),
                                      ("no duplicates", pairs, {"batch_sampler": "no_duplicates"}),
                                      ("stream", pairs.to_iterable_dataset(), {"max_steps": 6}),
                                      ("prompts", pairs, {"prompts": {"anchor": "w1 ", "positive": "w2 "}}),
                                      ("three negatives", Dataset.from_dict(table(32, 3)), {})):
            with self.subTest(name):
                of = model(dropout=True)
                loss = GloFNDRankingLoss(of, alpha=0.1)
                self.trainer(loss, of, data, **arguments).train()
                self.assertLess(float(loss.thresholds(["w2 " * (name == "prompts") + table(1)["positive"][0]] if name != "stream" else
                                                      table(32)["positive"]).min()), 1.0)

    def test_several_datasets(self):
        of = model()
        losses = {"a": GloFNDRankingLoss(of, alpha=0.1), "b": CachedGloFNDRankingLoss(of, mini_batch_size=4, alpha=0.1)}
        data = DatasetDict({"a": Dataset.from_dict(table(16)), "b": Dataset.from_dict(table(16, 2, first=100))})
        self.trainer(losses, of, data, save_strategy="epoch").train()
        seen = {name: set(loss.criteria[str(DIM)].keys().tolist()) for name, loss in losses.items()}
        self.assertEqual([len(x) for x in seen.values()], [16, 16])
        self.assertFalse(seen["a"] & seen["b"])
        saved = torch.load(os.path.join(self.out, "checkpoint-4", "glofnd.pt"), weights_only=True)
        self.assertEqual(set(saved), {"a.criteria.16", "b.criteria.16"})

    def test_model_card(self):
        of = model()
        trainer = self.trainer(GloFNDRankingLoss(of, 30.0, alpha=0.1), of)
        trainer.train()
        of.save(self.out)
        with open(os.path.join(self.out, "README.md")) as file:
            card = file.read()
        for part in ("glofnd.sentence_transformers.GloFNDRankingLoss", '"alpha": 0.1', '"scale": 30.0', "loss:GloFNDRankingLoss", "2502.20612"):
            self.assertIn(part, card)

    def test_wrong_use(self):
        of = model()
        for kind, words, call in ((glofnd.OptionError, "scale is 0", lambda: GloFNDRankingLoss(of, 0)),
                                  (glofnd.OptionError, "directions is 'backward'", lambda: GloFNDRankingLoss(of, directions="backward")),
                                  (glofnd.OptionError, "tau: not here; scale = 1 / tau", lambda: GloFNDRankingLoss(of, tau=0.05)),
                                  (glofnd.OptionError, "ranks always share", lambda: GloFNDRankingLoss(of, gather_across_devices=True)),
                                  (glofnd.OptionError, "aplha", lambda: GloFNDRankingLoss(of, aplha=0.1)),
                                  (glofnd.OptionError, "mini_batch_size", lambda: CachedGloFNDRankingLoss(of, mini_batch_size=0)),
                                  (glofnd.ArgumentError, "1 columns", lambda: GloFNDRankingLoss(of)([{}]))):
            with self.subTest(words), self.assertRaisesRegex(kind, words):
                call()


RANK = """
import os, sys, torch
from tests import test_sentence_transformers as t
t._place.name = sys.argv[1]
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
of = t.model().train()
shared = torch.nn.parallel.DistributedDataParallel(of)
result = {}
for name in ("plain", "cached"):
    make = t.GloFNDRankingLoss if name == "plain" else lambda m, **k: t.CachedGloFNDRankingLoss(m, mini_batch_size=3, **k)
    loss = make(of, alpha=0.2)
    loss.model = shared
    columns = t.table(12, 1)
    mine = {key: value[6 * rank:6 * rank + 6] for key, value in columns.items()}
    for _ in range(2):
        of.zero_grad()
        value = loss(t.tokenized(of, mine), None)
        value.backward()
    result[name] = (value.item(), torch.cat([p.grad.reshape(-1) for p in of.parameters() if p.grad is not None]))
torch.save(result, os.path.join(sys.argv[1], f"rank{rank}.pt"))
"""


class Ranks(unittest.TestCase):
    def test_two_ranks_are_one(self):
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        program = os.path.join(_place.name, "rank.py")
        with open(program, "w") as file:
            file.write(RANK)
        done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(port), program,
                               _place.name], capture_output=True, text=True, timeout=600,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "OMP_NUM_THREADS": "1"})
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        of = model().train()
        loss = GloFNDRankingLoss(of, alpha=0.2)
        for _ in range(2):
            value, want = gradient(loss, of, table(12, 1))
        for rank in range(2):
            for have in torch.load(os.path.join(_place.name, f"rank{rank}.pt"), weights_only=True).values():
                self.assertAlmostEqual(have[0], value, 4)
                torch.testing.assert_close(have[1], want, rtol=1e-3, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
