"""Level 1: glofnd.discover() of files in blocks: streamed, continued after a crash, shared over tasks of Ray. Always the same bytes."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

import glofnd

N, DIM = 5000, 64
RAY = importlib.util.find_spec("ray") is not None and os.environ.get("GLOFND_TEST_RAY", "1") != "0"


class Parts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        rng = np.random.default_rng(7)
        x = rng.normal(size=(N, DIM)).astype(np.float32)
        x[::97] = x[1::97][:len(x[::97])]
        x[5] = 0
        cls.x, cls.labels = x, np.arange(N) % 7
        cls.file = cls.at("x.npy")
        np.save(cls.file, x)
        cls.options = {"k": 20, "labels": cls.labels, "top": 10, "negatives": 2}
        glofnd.discover(cls.file, out=cls.at("plain"), graph=True, **cls.options)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def at(cls, name):
        return os.path.join(cls.folder.name, name)

    def expect_plain(self, name):
        names = sorted(os.listdir(self.at("plain")))
        self.assertEqual(sorted(os.listdir(self.at(name))), names)
        self.assertIn("graph.npz", names)
        for file in names:
            with open(os.path.join(self.at("plain"), file), "rb") as a, open(os.path.join(self.at(name), file), "rb") as b:
                self.assertEqual(a.read(), b.read(), file)
        self.assertFalse(os.path.exists(self.at(name) + ".partial"))

    def test_blocks_give_the_bytes_of_a_search_in_memory(self):
        glofnd.discover(self.file, out=self.at("blocks"), resume=True, graph=True, **self.options)
        self.expect_plain("blocks")

    def test_rows_beyond_memory_are_streamed(self):
        whole = glofnd.discover(self.file, only_duplicates=True, keep="central", sample=5)
        found = glofnd.discover(self.file, only_duplicates=True, keep="central", sample=5, memory=N * DIM * 4 - 1)
        np.testing.assert_array_equal(found.kept, whole.kept)
        np.testing.assert_array_equal(found.sample, whole.sample)

    def test_a_dead_search_is_continued(self):
        code = ("import os, numpy as np, glofnd\n"
                "def die(share):\n"
                "    if share > 0.5: os._exit(9)\n"
                f"glofnd.discover({self.file!r}, k=20, labels=np.arange({N}) % 7, top=10, negatives=2, out={self.at('again')!r}, resume=True, progress=die)\n")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(done.returncode, 9, done.stderr)
        blocks = sorted(name for name in os.listdir(self.at("again.partial")) if name.startswith("pairs-"))
        self.assertGreater(len(blocks), 0)
        times = [os.stat(self.at("again.partial/" + name)).st_mtime_ns for name in blocks]
        found = glofnd.discover(self.file, resume=self.at("again.partial"), **self.options)  # keeps the blocks until save()
        self.assertEqual(times, [os.stat(self.at("again.partial/" + name)).st_mtime_ns for name in blocks])
        found.save(self.at("again"), graph=True)
        self.expect_plain("again")

    def test_what_cannot_be_meant(self):
        for options, message in (({"resume": True}, "give out"), ({"engine": "ray"}, "folder of blocks"), ({"engine": "dask"}, "expected 'ray'"),
                                 ({"resume": ""}, "expected the path"), ({"resume": 3}, "expected the path"), ({"out": 3}, "expected the path"),
                                 ({"resume": "p", "patience": -1}, "patience is -1"), ({"out": self.at("o"), "format": "csv"}, "format is 'csv'")):
            with self.subTest(options=options), self.assertRaisesRegex(glofnd.Error, message):
                glofnd.discover(self.file, k=5, **options)
        with self.assertRaisesRegex(glofnd.ArgumentError, "embeddings in files"):
            glofnd.discover(self.x, k=5, resume=self.at("p"))
        with self.assertRaisesRegex(glofnd.FileError, "exists"):
            glofnd.discover(self.file, k=5, out=self.at("plain"))

    @unittest.skipUnless(RAY, "needs ray")
    def test_tasks_of_ray_that_die(self):
        import ray
        ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, configure_logging=False)
        try:
            @ray.remote(num_cpus=0)
            def kill_a_worker(folder):
                """Ends the first process that holds a claim, as a crash would."""
                import signal
                for _ in range(2000):
                    for pid in filter(str.isdigit, os.listdir("/proc")):
                        try:
                            held = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
                        except OSError:
                            continue
                        if any(path.startswith(folder + "/claim-") for path in held):
                            os.kill(int(pid), signal.SIGKILL)
                            return int(pid)
                    time.sleep(0.005)
                return 0
            place = os.path.realpath(self.at("ray"))
            os.mkdir(place + ".partial")
            with open(place + ".partial/claim-pairs-000001", "wb"):  # of a worker that is dead
                pass
            kill_a_worker.remote(place + ".partial")
            glofnd.discover(self.file, out=place, engine="ray", workers=3, patience=1, graph=True, **self.options)
            self.expect_plain("ray")
        finally:
            ray.shutdown()


if __name__ == "__main__":
    unittest.main()
