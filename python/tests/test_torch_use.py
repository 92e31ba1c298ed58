"""Level 2: what people do by mistake with glofnd.torch.GloFNDLoss, and what they may do although it is unusual."""

import copy
import gc
import pickle
import unittest

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None

from torch.utils.checkpoint import checkpoint

import glofnd
from glofnd.numpy import GloFND
from glofnd.torch import GloFNDLoss, WithIndex

from .test_torch import BATCH, DIM, SAMPLES, batch, leaves, make, same_state


class Arguments(unittest.TestCase):
    def refused(self, *cases):
        for kind, text, call in cases:
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                call()

    def test_number_of_samples(self):
        argument = glofnd.ArgumentError
        for make_loss in (GloFNDLoss, GloFND):
            self.refused((argument, "num_samples is 64.5; expected an integer", lambda: make_loss(64.5)),
                         (argument, "num_samples is '64'", lambda: make_loss("64")),
                         (argument, "a loss of keys", lambda: make_loss(None).resize(64)),
                         (argument, "num_samples is None", lambda: make_loss(64).resize(None)),
                         (argument, r"num_samples is of type list; .*len\(dataset\)", lambda: make_loss([0] * 64)),
                         (argument, "num_samples is True", lambda: make_loss(True)),
                         (argument, "num_samples is 1180591620717411303424", lambda: make_loss(2**70)),
                         (argument, "num_samples is 90.7", lambda: make_loss(64).resize(90.7)),
                         (argument, "dim is 8.5", lambda: make_loss(64, dim=8.5)))
            self.assertIn("64", str(make_loss(torch.tensor(64)).rows().shape if make_loss is GloFND else make_loss(torch.tensor(64))))

    def test_temperature(self):
        self.assertEqual(make(tau=None).tau, make().tau)
        for wrong in ("warm", [0.1], torch.tensor([0.1, 0.2])):
            self.refused((glofnd.OptionError, "tau is .*expected a number", lambda: make(tau=wrong)))
        for wrong in (5.0, 0.001):  # log_scale lies within [0, log 100]: another temperature would be taken in silence
            self.refused((glofnd.OptionError, r"tau is .*learned.*\[0.01, 1\].*learn_tau=False", lambda: make("clip", tau=wrong)))
            self.assertEqual(make("clip", tau=wrong, learn_tau=False).tau, wrong)
        for wrong in (0.0, -0.1, float("nan"), 1e9, torch.tensor(0.0)):  # 0 would mean the module's own in C
            self.refused((glofnd.OptionError, r"^tau is .*\[0.001, 100\]", lambda: make()(*batch(0), tau=wrong)))
        for right in (0.01, 1.0):
            self.assertAlmostEqual(make("clip", tau=right).tau, right, 7)

    def test_negative_labels_and_groups(self):
        a, b, index = batch(0)
        names = "labels", "groups"
        for name, detector in zip(names, ("oracle", "groups")):
            criterion = make(detector=detector)
            none = criterion.eval()(a, b, index, **{name: index * 0 - 1})
            self.assertEqual(criterion(a, b, index, **{name: index * 0 - 2**32}), none)  # not 0, the same for all
            self.assertNotEqual(criterion(a, b, index, **{name: index * 0}), none)
            self.assertEqual(criterion.mask(a, b, index, **{name: index * 0 - 2**32}).sum(), 4 * BATCH * (BATCH - 1))

    def test_words_that_help(self):
        a, b, index = batch(0)
        criterion = make()
        self.refused((glofnd.ArgumentError, "index is missing.*WithIndex", lambda: criterion(a, b)),  # as other losses are called
                     (glofnd.ArgumentError, "index is missing.*WithIndex", lambda: criterion.mask(a, b, None)),
                     (glofnd.ArgumentError, "index is .*expected one integer per sample", lambda: criterion(a, b, ["one"] * BATCH)),
                     (glofnd.ArgumentError, "index is torch.float32; expected integers", lambda: criterion(a, b, [0.5] * BATCH)),
                     (glofnd.ArgumentError, r"z1 is of type ndarray; .*torch.as_tensor\(z1\)", lambda: criterion(a.numpy(), b, index)),
                     (glofnd.ArgumentError, r"layout torch.sparse_coo.*to_dense\(\)", lambda: criterion(a.to_sparse(), b.to_sparse(), index)),
                     (glofnd.ArgumentError, "layout torch.sparse_coo", lambda: criterion.mask(a, b.to_sparse(), index)),
                     (glofnd.OptionError, "num_samples: .*resize", lambda: criterion.configure(num_samples=65)),
                     (glofnd.OptionError, "learn_tau: .*make another", lambda: criterion.configure(learn_tau=True)),
                     (glofnd.OptionError, "learner.*zero byte", lambda: make(learner="adam\0x")),
                     (glofnd.UnsupportedError, "DataParallel.*the model", lambda: criterion._replicate_for_data_parallel()),
                     (glofnd.ArgumentError, "index is .*integers", lambda: criterion.thresholds(slice(0, 3))))
        self.assertEqual(criterion.thresholds([]).shape, (0,))
        self.assertTrue(same_state(criterion, make()))


class Datasets(unittest.TestCase):
    def test_samples_carry_their_position(self):
        x = torch.randn(SAMPLES, DIM)
        pairs, views = torch.utils.data.TensorDataset(x, x + 1), [[row, row + 1] for row in x]
        dicts = [{"image": row, "text": row + 1} for row in x]
        loader = lambda data: torch.utils.data.DataLoader(WithIndex(data), BATCH, shuffle=True)  # noqa: E731
        for a, b, index in loader(pairs):
            self.assertTrue(torch.equal(a, x[index]) and torch.equal(b, x[index] + 1))
        for (a, b), index in loader(views):
            self.assertTrue(torch.equal(b, x[index] + 1))
        for sample in loader(dicts):
            self.assertTrue(torch.equal(sample["text"], x[sample["index"]] + 1))
        self.assertEqual(WithIndex(views)[-1][1], SAMPLES - 1)
        self.assertEqual(len(list(WithIndex(dicts))), SAMPLES)  # an IndexError ends a loop over positions

    def test_a_stream_has_no_positions(self):
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(())
        with self.assertRaisesRegex(glofnd.ArgumentError, "Stream has no length.*number the samples"):
            WithIndex(Stream())

    def test_attributes_of_the_dataset(self):
        class Named(torch.utils.data.TensorDataset):
            classes = ["cat", "dog"]

            def __getitems__(self, indices):
                raise AssertionError("the index would be left out")

        data = WithIndex(Named(torch.zeros(SAMPLES, 3)))
        for copied in (data, copy.deepcopy(data)):
            self.assertEqual(copied.classes, ["cat", "dog"])
            self.assertEqual(copied.tensors[0].shape, (SAMPLES, 3))
            self.assertFalse(hasattr(copied, "targets"))
        self.assertEqual(len(next(iter(torch.utils.data.DataLoader(data, 4)))), 2)

    def test_indices_of_other_kinds(self):
        a, b, index = batch(0)
        want = make().eval()(a, b, index)
        for same in (index.tolist(), index.numpy(), tuple(index.tolist()), index.numpy().astype("int32")):
            self.assertEqual(make().eval()(a, b, same), want)
            self.assertTrue(torch.equal(make().mask(a, b, same), make().mask(a, b, index)))


class Saved(unittest.TestCase):
    def test_a_failed_load_leaves_the_state(self):
        criterion = make()
        criterion.set_epoch(3)
        criterion(*batch(0))
        before, good = copy.deepcopy(criterion), criterion.state_dict()
        for name, value, text in (("lambda", torch.full((1, SAMPLES), float("nan")), "not finite"),
                                  ("epoch", torch.tensor(-3), "epoch"), ("epoch", torch.tensor(1.5), "epoch"),
                                  ("shared", good["shared"].float(), "shared"), ("shared", good["shared"][:, :4], "shared")):
            with self.subTest(name), self.assertRaisesRegex(glofnd.StateError, text):
                criterion.load_state_dict({**good, name: value})
            self.assertTrue(same_state(criterion, before))
            self.assertEqual(criterion.epoch, 3)
        self.assertEqual(criterion(*batch(1)), before(*batch(1)))
        self.assertTrue(same_state(criterion, before))

    def test_a_ring_that_does_not_fit(self):
        criterion = make(dim=DIM, learner="ring")
        criterion(*batch(0))
        good = criterion.state_dict()
        for wrong in ({"ring_a": good["ring_a"][:, :4]}, {"ring_index": good["ring_index"][:5]}, {"ring_a": good["ring_a"][:0]}):
            with self.subTest(*wrong), self.assertRaisesRegex(glofnd.StateError, "ring_a of the saved state has shape"):
                make(dim=DIM, learner="ring").load_state_dict({**good, **wrong})
        other = make(dim=DIM, learner="ring")
        other.load_state_dict({**good, "ring_a": good["ring_a"].double(), "ring_index": good["ring_index"].int()})
        self.assertTrue(same_state(criterion, other))

    def test_a_process_group_is_not_copied(self):
        for call in (copy.deepcopy, pickle.dumps):
            with self.assertRaisesRegex(glofnd.ArgumentError, "process group .*state_dict"):
                call(make(process_group=object()))
            call(make(process_group=False))

    def test_assign_and_wider_types(self):
        criterion, other = make("clip"), make("clip")
        criterion(*batch(0))
        other.load_state_dict({key: x.double() if x.is_floating_point() else x.long() if x.dtype == torch.int32 else x
                               for key, x in criterion.state_dict().items()}, assign=False)
        self.assertTrue(same_state(criterion, other))


class Checkpointed(unittest.TestCase):
    def test_too_many_losses_before_their_backward(self):
        criterion, losses = make(), []
        for seed in range(10):
            a, b, index = leaves(seed)
            losses.append(checkpoint(lambda a, b, index=index: criterion(a, b, index), a, b, use_reentrant=False))
        losses[-1].backward()
        with self.assertRaisesRegex(glofnd.UnsupportedError, "more than 8 such losses.*outside of the checkpointed part"):
            losses[0].backward()


class Compiled(unittest.TestCase):
    def check(self, make_loss, call, **options):
        torch._dynamo.reset()
        net, (compiled, eager) = torch.nn.Linear(DIM, DIM), (make_loss(), make_loss())
        step = torch.compile(lambda a, b, index: call(compiled, net(a), net(b), index), fullgraph=True, backend="aot_eager", **options)
        for epoch in range(3):
            (a, b, index), (x, y, _) = leaves(epoch), leaves(epoch)
            n = BATCH - 2 * epoch if options else BATCH
            one, two = step(a[:n], b[:n], index[:n]), call(eager, net(x[:n]), net(y[:n]), index[:n])
            one.backward()
            two.backward()
            self.assertEqual(one, two)
            self.assertTrue(torch.equal(a.grad, x.grad))
        self.assertTrue(same_state(compiled, eager))

    def test_every_argument(self):
        self.check(make, lambda loss, a, b, index: loss(a, b, index, index % 3))
        self.check(lambda: make(detector="oracle"), lambda loss, a, b, index: loss(a, b, index, (index % 3).int()))
        self.check(lambda: make(detector="groups"), lambda loss, a, b, index: loss(a, b, index, groups=index % 3 - 1))
        self.check(lambda: make("clip"), lambda loss, a, b, index: loss(a, b, index.int(), tau=0.2))
        self.check(lambda: make("clip"), lambda loss, a, b, index: loss(a.bfloat16(), b.bfloat16(), index))

    def test_batches_of_several_sizes(self):
        self.check(lambda: make("clip"), lambda loss, a, b, index: loss(a, b, index, index % 3), dynamic=True)

    def test_a_graph_without_its_loss(self):
        criterion, (a, b, index) = make(), batch(0)
        clock, handle = criterion._clock, criterion._handle
        torch.ops.glofnd.step(a, b, index, None, None, None, clock, handle, 0)
        del criterion
        gc.collect()
        with self.assertRaisesRegex(glofnd.ArgumentError, "is gone: keep the module"):
            torch.ops.glofnd.step(a, b, index, None, None, None, clock, handle, 0)

    def test_labels_of_any_size(self):
        torch._dynamo.reset()
        compiled, plain, (a, b, index) = make(detector="oracle"), make(detector="oracle"), batch(0)
        step = torch.compile(lambda a, b, index, labels: compiled(a, b, index, labels), fullgraph=True, backend="aot_eager")
        self.assertEqual(step(a, b, index, index % 3 * 2**40), plain(a, b, index, index % 3))


if __name__ == "__main__":
    unittest.main()
