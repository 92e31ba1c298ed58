"""Level 1: NumPy alone."""

import gc
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

import glofnd
from glofnd import _lib
from glofnd.numpy import ROW, GloFND, thresholds

from . import golden


def batch(seed=0, n=16, dim=8, count=64):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(n, dim)).astype(np.float32)
    b = (a + 0.5 * rng.normal(size=(n, dim))).astype(np.float32)
    return a, b, rng.permutation(count)[:n]


def same(x, y):
    return x.loss == y.loss and np.array_equal(x.grad_a, y.grad_a) and np.array_equal(x.grad_b, y.grad_b)


@unittest.skipUnless(os.path.isdir(golden.ROOT), "the golden cases are not here: they are in the repository, not in the source distribution")
class Golden(unittest.TestCase):
    def test_cases_of_the_authors_code(self):
        for name in golden.one_rank_cases():
            with self.subTest(name):
                self.replay(golden.Case(name))

    def test_cases_of_two_ranks(self):
        """Both ranks in this process: rows, links side by side, gradients, then the new state of each to the other."""
        self.assertGreaterEqual(len(golden.two_rank_cases()), 2)
        for name in golden.two_rank_cases():
            with self.subTest(name):
                case = golden.Case(name)
                ranks = [self.start(case, case.options()) for _ in range(2)]
                for t, step in enumerate(case.steps()):
                    self.step_of_ranks(case, t, ranks, *step)

    def step_of_ranks(self, case, t, ranks, a, b, index, labels, epoch, tau, gamma):
        cols, rows = a.shape[0], a.shape[0] // 2
        links = np.empty((cols, _lib.LINK_BYTES), np.uint8)
        jobs = []
        for r, criterion in enumerate(ranks):
            q, alive = criterion._batch(*map(np.ascontiguousarray, (a, b)), index, labels, None, (None, None), epoch, tau, gamma, 0)
            own = _lib.OwnRows(first=r * rows, rows=rows)
            jobs.append((criterion._engine, q, own, _lib.Stats(), alive))
        for r, (engine, q, own, stats, _) in enumerate(jobs):
            engine.step_rows(q, links[r * rows:].ctypes.data, stats, own)
        for r, (engine, q, own, stats, _) in enumerate(jobs):
            grads = [np.empty((rows, a.shape[1]), np.float32) for _ in range(2)]
            keep = np.empty((rows, 2, cols), np.uint8)
            engine.step_mask(q, links.ctypes.data, keep.ctypes.data, own)
            engine.step_grad(q, links.ctypes.data, grads[0].ctypes.data, grads[1].ctypes.data, stats, own)
            self.close_of_rank(case, t, r, "loss", stats.loss)
            self.close_of_rank(case, t, r, "grad_logit_scale", stats.grad_scale)
            for name, value in zip(("grad_im", "grad_tt"), grads):
                self.close_of_rank(case, t, r, name, value)
            for name, value in zip(("mask_im_bits", "mask_tt_bits"), golden.mask_bits(keep)):
                np.testing.assert_array_equal(value, case.arrays[name][t, r], f"{case.name}: {name} of step {t}")
        for r, criterion in enumerate(ranks):
            own = index[r * rows:(r + 1) * rows]
            for side in range(2):
                ranks[1 - r].put_rows(own, criterion.rows(own, side), side)

    def close_of_rank(self, case, t, r, name, got):
        want = case.arrays[name]
        difference = np.abs(np.asarray(got, np.float64) - want[t, r]).max()
        self.assertLessEqual(difference / np.abs(want).max(), golden.TOLERANCE, f"{case.name}: {name} of step {t}, rank {r}")

    def start(self, case, options):
        criterion = GloFND(int(case.hyper["N"]), **options)
        for side in range(case.sides):
            rows, shared = case.start_rows(criterion.rows(side=side), side)
            criterion.put_rows(np.arange(len(rows)), rows, side)
            if shared is not None:
                criterion.put_shared(shared, side)
        return criterion

    def replay(self, case):
        options = case.options()
        criterion = self.start(case, options)
        self.following = case.hyper.get("resume") != "1" and case.number("lambda_init", 1.0) == 1.0
        for t, (a, b, index, labels, epoch, tau, gamma) in enumerate(case.steps()):
            self.share_first(criterion, case, options, epoch)
            settings = {"epoch": epoch, "labels": labels, "tau": tau, "gamma": gamma}
            bits = golden.mask_bits(criterion.mask(a, b, index, **settings))
            result = criterion.step(a, b, index, quality=labels is not None, **settings)
            self.compare(case, t, result, bits, tau)
            self.compare_state(case, t, criterion, options)

    def share_first(self, criterion, case, options, epoch):
        """Epochs in which the authors' code reads entry 0 of its table, where anchors have thresholds of their own."""
        if options["detector"] != "glofnd":
            return
        first = options["update_epoch"]
        warm = first <= epoch < first + options["lambda_warmup"]
        if not warm and epoch >= first:
            self.following = False
        if self.following or (not warm and epoch >= first):
            return
        for side in range(case.sides):
            rows, shared = criterion.rows(side=side), criterion.shared(side)
            follows = rows["clock"] == 0
            if shared["clock"]:
                for field in ("lambda", "m", "v", "clock"):
                    rows[field][follows] = shared[field]
            rows["clock"] = np.maximum(rows["clock"], 1)
            share = rows[0].copy()
            share["log_u"] = -np.inf
            if warm:
                for field, value in (("lambda", 1), ("m", 0), ("v", 0), ("clock", 0)):
                    rows[field] = value
            criterion.put_rows(np.arange(len(rows)), rows, side)
            criterion.put_shared(share, side)
        self.following = warm

    def close(self, case, name, t, got):
        if name in case.wanted:
            want = case.arrays[name]
            want_now = want[t].reshape(np.shape(got)) if np.ndim(got) else want[t].reshape(())
            scale = np.abs(want[np.isfinite(want)]).max(initial=0.0) or 1.0
            both_nan = np.isnan(want_now) & np.isnan(got)
            with np.errstate(invalid="ignore"):
                difference = np.where(both_nan, 0.0, np.abs(got - want_now)).max(initial=0.0)
            self.assertLessEqual(difference / scale, golden.TOLERANCE, f"{case.name}: {name} of step {t}")

    def compare(self, case, t, result, bits, tau):
        names = ("grad_h1", "grad_h2") if case.two_views else ("grad_im", "grad_tt")
        masks = ("mask_ab_aa_bits", "mask_ba_bb_bits") if case.two_views else ("mask_im_bits", "mask_tt_bits")
        self.close(case, "loss", t, np.float64(result.loss))
        for name, gradient in zip(names, (result.grad_a, result.grad_b)):
            self.close(case, name, t, gradient)
        if tau:
            self.close(case, "grad_logit_scale", t, np.float64(result.stats["grad_scale"]))
        for name, value in zip(masks, bits):
            if name in case.wanted:
                np.testing.assert_array_equal(value, case.arrays[name][t].reshape(-1), f"{case.name}: {name} of step {t}")
        for name, field in (("log_precision", "precision_per_anchor"), ("log_recall", "recall_per_anchor"), ("log_kept_frac", "kept_share")):
            self.close(case, name, t, np.float64(result.stats[field]))

    def compare_state(self, case, t, criterion, options):
        for side in range(case.sides):
            rows = criterion.rows(side=side)
            self.close(case, case.side_name("u", side), t, np.exp(rows["log_u"].astype(np.float64)))
            if options["detector"] == "single":
                thresholds_of = criterion.shared(side)[None]
            else:
                thresholds_of, shared = rows, criterion.shared(side)
                follows = (rows["clock"] == 0) & (shared["clock"] > 0)
                for field in ("lambda", "m", "v"):
                    thresholds_of[field][follows] = shared[field]
            for name, field in (("lda", "lambda"), ("m", "m"), ("v", "v")):
                self.close(case, case.side_name(name, side), t, thresholds_of[field])


class Step(unittest.TestCase):
    def test_strides_and_types_give_the_same_bits(self):
        a, b, index = batch()
        plain = GloFND(64, alpha=0.1).step(a, b, index)
        views = np.stack([a, b], 1)  # [batch][2][dim]: rows of one view lie 2 dim apart
        self.assertTrue(same(plain, GloFND(64, alpha=0.1).step(views[:, 0], views[:, 1], index)))
        self.assertTrue(same(plain, GloFND(64, alpha=0.1).step(np.asfortranarray(a), b, index.astype(np.int32))))
        backwards = np.ascontiguousarray(a[::-1])[::-1]
        self.assertTrue(same(plain, GloFND(64, alpha=0.1).step(backwards, b, index)))
        for kind in (">f4", ">f2"):  # the other order of bytes
            swapped = [x.astype(kind) for x in (a, b)]
            native = [x.astype(kind[1:]) for x in (a, b)]
            self.assertTrue(same(GloFND(64).step(*swapped, index.astype(">i8")), GloFND(64).step(*native, index)))
        half = [x.astype(np.float16) for x in (a, b)]
        wide = [x.astype(np.float32) for x in half]
        self.assertTrue(same(GloFND(64).step(*half, index), GloFND(64).step(*wide, index)))

    def test_without_update_nothing_moves(self):
        a, b, index = batch()
        criterion = GloFND(64, alpha=0.1)
        before = criterion.rows()
        still = criterion.step(a, b, index, update=False)
        self.assertTrue(np.array_equal(before, criterion.rows()))
        self.assertTrue(same(still, criterion.step(a, b, index)))
        self.assertFalse(np.array_equal(before, criterion.rows()))

    def test_mask_is_that_of_the_next_step(self):
        a, b, index = batch()
        criterion = GloFND(64, alpha=0.2, lambda_init="quantile")
        keep = criterion.mask(a, b, index)
        stats = criterion.step(a, b, index).stats
        self.assertEqual(int(keep.sum()), stats["pairs"] - stats["flagged"])
        self.assertGreater(stats["flagged"], 0)

    def test_thresholds_start_with_the_first_visit(self):
        a, b, index = batch()
        criterion = GloFND(64, alpha=0.2)
        self.assertGreater(criterion.step(a, b, index).stats["flagged"], 0)
        self.assertTrue((criterion.thresholds(index) < 1).all())
        for options in ({"lambda_init": "one"}, {"compat": "official"}):
            with self.subTest(**options):
                self.assertEqual(GloFND(64, alpha=0.2, **options).step(a, b, index).stats["flagged"], 0)

    def test_wrong_use_is_refused(self):
        a, b, index = batch()
        criterion = GloFND(64)
        nan = a.copy()
        nan[3, 2] = np.nan
        for error, text, call in (
                (glofnd.ArgumentError, "a is float64; .*astype", lambda: criterion.step(*(x.astype(np.float64) for x in (a, b)), index)),
                (glofnd.ArgumentError, "labels has values that do not fit int32", lambda: criterion.step(a, b, index, labels=index + 2**40)),
                (glofnd.ArgumentError, "support_a is .*as a$", lambda: criterion.step(a, b, index, support_a=a[:3])),
                (glofnd.ArgumentError, "similarities are float64", lambda: criterion.update(np.eye(4), np.arange(4))),
                (glofnd.ArgumentError, "similarities are .*views", lambda: criterion.keep(np.ones(4, np.float32), np.arange(4))),
                (glofnd.ArgumentError, "negative has shape .3, 3.", lambda: criterion.keep(np.eye(4, dtype=np.float32), np.arange(4), negative=np.ones((3, 3)))),
                (glofnd.ArgumentError, "ring have shape .16, 4.", lambda: GloFND(64, dim=8, learner="ring").put_ring(index, a[:, :4])),
                (glofnd.ArgumentError, "rows of one length", lambda: thresholds(a, b[:, :4], 0.1)),
                (glofnd.ArgumentError, "shape", lambda: criterion.step(a[0], b, index)),
                (glofnd.ArgumentError, "one shape", lambda: criterion.step(a[:, :4], b, index)),
                (glofnd.ArgumentError, "shape", lambda: criterion.step(a, b, index[:3])),
                (glofnd.ArgumentError, "integers", lambda: criterion.step(a, b, index * 1.0)),
                (glofnd.ArgumentError, "missing", lambda: criterion.step(a, b, None)),
                (glofnd.AnchorIndexError, "0 .. 63", lambda: criterion.step(a, b, index + 64)),
                (glofnd.AnchorIndexError, "differ", lambda: criterion.step(a, b, index * 0)),
                (glofnd.NumericError, "row 3", lambda: criterion.step(nan, b, index)),
                (glofnd.ArgumentError, "^num_samples is 0; allowed", lambda: GloFND(0)),
                (glofnd.ArgumentError, "^num_samples is -1; allowed", lambda: GloFND(-1)),
                (glofnd.ArgumentError, "^the batch has 1 sample; expected 2 to", lambda: criterion.step(a[:1], b[:1], index[:1])),
                (glofnd.ArgumentError, "^groups is None; the detector groups", lambda: GloFND(64, detector="groups").step(a, b, index)),
                (glofnd.ArgumentError, "^labels is None", lambda: criterion.step(a, b, index, quality=True)),
                (glofnd.AnchorIndexError, "^index.0. and index.1. are both 0; ids must differ", lambda: criterion.step(a, b, index * 0)),
                (glofnd.OptionError, "alpha", lambda: GloFND(64, alpah=0.1)),
                (glofnd.OptionError, "alpha", lambda: GloFND(64, alpha=2.0)),
                (glofnd.OptionError, "length as dim=", lambda: GloFND(64, similarity="bank")),
                (glofnd.ArgumentError, "label", lambda: GloFND(64, detector="oracle").step(a, b, index)),
                (glofnd.ArgumentError, "masked", lambda: criterion.step(np.ma.masked_array(a, a > 1), b, index)),
                (glofnd.ArgumentError, "tau is None", lambda: criterion.step(a, b, index, tau=None)),
                (glofnd.ArgumentError, "gamma is 'x'", lambda: criterion.step(a, b, index, gamma="x")),
                (glofnd.ArgumentError, "alpha is None", lambda: thresholds(a, b, None)),
                (glofnd.ArgumentError, "index is missing", lambda: criterion.update(np.eye(4, dtype=np.float32), None)),
                (glofnd.ArgumentError, "side is 'a'", lambda: criterion.rows([1], side="a")),
                (glofnd.AnchorIndexError, "0 .. 63", lambda: criterion.rows([-1])),
                (glofnd.AnchorIndexError, "0 .. 63", lambda: criterion.rows([64])),
                (glofnd.OptionError, "device: .*glofnd.torch", lambda: GloFND(64, device="cpu")),
                (glofnd.OptionError, "device", lambda: GloFND.load("missing", device="cpu")),
                (glofnd.ArgumentError, "zero byte", lambda: criterion.save("a\0b")),
                (glofnd.ArgumentError, "zero byte", lambda: GloFND.load("a\0b")),
                (glofnd.FileError, "missing", lambda: GloFND.load("missing"))):
            with self.subTest(text):
                with self.assertRaisesRegex(error, text) as caught:
                    call()
                self.assertIsInstance(caught.exception, glofnd.Error)
        self.assertTrue(np.isneginf(criterion.rows()["log_u"]).all(), "a refused call moved the state")

    def test_thresholds_are_order_statistics(self):
        rng = np.random.default_rng(1)
        q = rng.normal(size=(50, 12)).astype(np.float32)
        unit = q / np.linalg.norm(q, axis=1, keepdims=True)
        sims = unit @ unit.T
        np.fill_diagonal(sims, -np.inf)
        want = np.sort(sims, 1)[:, ::-1][:, int(np.ceil(0.1 * 49)) - 1]
        np.testing.assert_allclose(thresholds(q, q, 0.1, skip=np.arange(50)), want, atol=1e-6)

    def test_similarities_of_ones_own(self):
        a, _, index = batch()
        unit = a / np.linalg.norm(a, axis=1, keepdims=True)
        sims = (unit @ unit.T).astype(np.float32)
        criterion = GloFND(64, alpha=0.2, lambda_init="quantile")
        criterion.update(sims, index)
        keep = criterion.keep(sims, index)
        off_diagonal = ~np.eye(len(a), dtype=bool)
        np.testing.assert_array_equal(keep, (sims <= criterion.thresholds(index)[:, None]) & off_diagonal)


class State(unittest.TestCase):
    def make(self, **options):
        criterion = GloFND(64, dim=8, alpha=0.1, **options)
        for seed in range(3):
            a, b, index = batch(seed)
            criterion.step(a, b, index)
        return criterion

    def check_same(self, one, two):
        for side in range(one.sides):
            self.assertEqual(one.rows(side=side).tobytes(), two.rows(side=side).tobytes())
            self.assertEqual(one.shared(side).tobytes(), two.shared(side).tobytes())
            if one._engine.bank_dim:
                self.assertEqual(one.bank(side=side).tobytes(), two.bank(side=side).tobytes())
        a, b, index = batch(9)
        self.assertTrue(same(one.step(a, b, index), two.step(a, b, index)))

    def test_pickle_and_file(self):
        for options in ({}, {"detector": "single"}, {"learner": "ring", "ring_rows": 40}, {"loss": "isogclr"}, {"loss": "isogclr-views"},
                        {"loss": "fastclip", "learner": "ring"}, {"similarity": "bank"}, {"loss": "sogclr2", "similarity": "bank"},
                        {"similarity": "bank", "action": "attract"}):
            with self.subTest(options), tempfile.TemporaryDirectory() as folder:
                criterion = self.make(**options)
                copy = pickle.loads(pickle.dumps(criterion))
                criterion.save(os.path.join(folder, "store"))
                loaded = GloFND.load(os.path.join(folder, "store"), alpha=0.1, **options)
                self.check_same(*(pickle.loads(pickle.dumps(x)) for x in (copy, loaded)))
                self.check_same(copy, loaded)
                a, b, index = batch(9)
                criterion.step(a, b, index)
                self.check_same(copy, criterion)

    def test_it_says_what_it_is(self):
        self.assertEqual(repr(GloFND(7, loss="simclr", alpha=0.1)), "GloFND(num_samples=7, loss='simclr', alpha=0.1)")

    def test_names_of_files(self):
        criterion = self.make()
        with tempfile.TemporaryDirectory() as folder:
            for name in (b"store", b"\xff", "\udcfe", "é"):
                path = os.path.join(os.fsencode(folder), os.fsencode(name))
                for place in (path, os.fsdecode(path)):
                    criterion.save(place)
                    self.check_same(pickle.loads(pickle.dumps(criterion)), GloFND.load(place, alpha=0.1))
            self.assertEqual(len(os.listdir(folder)), 4)

    def test_rows_in_and_out(self):
        criterion = self.make()
        rows = criterion.rows([5, 1])
        self.assertEqual((rows.dtype, rows.nbytes), (ROW, 72))
        rows["lambda"], rows["clock"] = 0.25, 7
        criterion.put_rows([5, 1], rows)
        np.testing.assert_array_equal(criterion.thresholds([1, 5]), [0.25, 0.25])
        with self.assertRaises(glofnd.AnchorIndexError):
            criterion.put_rows([5, 5], rows)
        self.assertEqual((criterion.rows([]).shape, criterion.thresholds([]).shape), ((0,), (0,)))

    def test_averages_in_and_out(self):
        criterion = self.make(similarity="bank")
        rows = criterion.bank([5, 1])
        self.assertEqual((rows.dtype, rows.shape), (np.float16, (2, 8)))
        seen = criterion.bank().any(axis=1)
        np.testing.assert_array_equal(seen, criterion.rows()["clock"] > 0)
        np.testing.assert_allclose(np.linalg.norm(criterion.bank()[seen].astype(np.float64), axis=1), 1, atol=2**-10)
        criterion.put_bank([1, 5], rows)
        np.testing.assert_array_equal(criterion.bank([1, 5]), rows)
        with self.assertRaises(glofnd.AnchorIndexError):
            criterion.put_bank([5, 5], rows)
        with self.assertRaisesRegex(glofnd.ArgumentError, "expected .n..8"):
            criterion.put_bank([5], rows[:1, :4])
        with self.assertRaisesRegex(glofnd.ArgumentError, "no bank"):
            self.make().bank([1])


class Process(unittest.TestCase):
    def test_two_threads_give_what_one_gives(self):
        def run(out, seed):
            criterion = GloFND(64, alpha=0.1)
            for i in range(20):
                out[seed] = criterion.step(*batch(100 * seed + i))
        alone, together = {}, {}
        for seed in (1, 2):
            run(alone, seed)
        workers = [threading.Thread(target=run, args=(together, seed)) for seed in (1, 2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertTrue(all(same(alone[seed], together[seed]) for seed in (1, 2)))

    def test_one_criterion_in_two_threads(self):
        criterion = GloFND(64, alpha=0.1)
        workers = [threading.Thread(target=lambda: [criterion.step(*batch(i)) for i in range(20)]) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertTrue(np.isfinite(criterion.thresholds()).all())

    def test_fork_after_a_step(self):
        script = ("import os, sys, numpy as np\nfrom glofnd.numpy import GloFND\n"
                  "z = np.random.default_rng(0).normal(size=(2, 512, 32)).astype(np.float32)\n"
                  "c = GloFND(512, threads=4)\nbefore = c.step(z[0], z[1], np.arange(512), update=False).loss\n"
                  "child = os.fork()\nloss = c.step(z[0], z[1], np.arange(512), update=False).loss\n"
                  "if child == 0: os._exit(loss != before)\n"
                  "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or loss != before)\n")
        with open(glofnd._lib.library_path(), "rb") as file:
            if b"libgomp" in file.read():
                self.skipTest("this library has OpenMP's threads, which do not survive a fork; wheels have their own")
        subprocess.run([sys.executable, "-c", script], check=True, timeout=120)

    def test_many_steps_do_not_grow(self):
        def resident():
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        criterion = GloFND(64, dim=8, alpha=0.1, threads=1)
        rng = np.random.default_rng(0)
        for round_ in range(3):
            for _ in range(1000):
                n = int(rng.integers(2, 17))
                criterion.step(*batch(int(rng.integers(1000)), n=n))
                GloFND(8, threads=1)
            gc.collect()
            if round_ == 0:
                start = resident()
        self.assertLess(resident() - start, 4 << 20)


class Growth(unittest.TestCase):
    def test_a_dataset_that_grew(self):
        rng = np.random.default_rng(0)
        a, b = rng.normal(size=(2, 16, 8)).astype(np.float32)
        for options in ({}, {"loss": "clip"}, {"learner": "ring", "dim": 8}, {"similarity": "bank", "dim": 8}):
            with self.subTest(**options):
                criterion, before = GloFND(20, **options), GloFND(20, **options)
                for one in (criterion, before):
                    one.step(a, b, np.arange(16))
                criterion.resize(24)
                self.assertEqual(criterion.num_samples, 24)
                self.assertEqual(criterion.rows(np.arange(20)).tobytes(), before.rows().tobytes())
                self.assertEqual(criterion.step(a, b, np.arange(16)).loss, before.step(a, b, np.arange(16)).loss)
                criterion.step(a, b, np.arange(8, 24))
                with self.assertRaisesRegex(glofnd.ArgumentError, "num_samples is 20; this loss has 24"):
                    criterion.resize(20)


class Epoch(unittest.TestCase):
    def test_it_is_checked(self):
        x = np.eye(4, dtype=np.float32)
        for wrong in (1.5, -1, None, 2**31):
            with self.subTest(str(wrong)), self.assertRaisesRegex(glofnd.ArgumentError, "epoch is .*expected"):
                GloFND(4).step(x, x, np.arange(4), epoch=wrong)


if __name__ == "__main__":
    unittest.main()
