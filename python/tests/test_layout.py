"""Level 0: the tables of glofnd/_lib.py against include/glofnd.h, by a C program made of the tables."""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from glofnd import _lib

HEADER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "include")


def probe_source() -> str:
    lines = ["#define GLOFND_EXPERIMENTAL", "#include <glofnd.h>", "#include <glofnd_discover.h>", "#include <stdio.h>", "int main(void) {"]
    for struct, fields in _lib.STRUCTS.items():
        lines.append(f'    printf("{struct} %zu\\n", sizeof({struct}));')
        for name, _ in fields:
            field = f"(({struct} *)0)->{name}"
            lines.append(f'    printf("{struct}.{name} %zu %zu\\n", offsetof({struct}, {name}), sizeof({field}));')
    for name in _lib.CONSTANTS:
        lines.append(f'    printf("{name} %d\\n", (int){name});')
    lines += ['    printf("version %d %d\\n", GLOFND_VERSION_MAJOR, GLOFND_VERSION_MINOR);',
              "#define GLOFND_X(name, value, text) printf(\"status %d\\n\", value);", "    GLOFND_STATUS_LIST(GLOFND_X)",
              "    return 0;", "}"]
    return "\n".join(lines) + "\n"


def table_lines() -> list:
    lines = []
    for struct, fields in _lib.STRUCTS.items():
        kind = _lib._struct(struct)
        lines.append(f"{struct} {ctypes.sizeof(kind)}")
        lines += [f"{struct}.{name} {getattr(kind, name).offset} {getattr(kind, name).size}" for name, _ in fields]
    lines += [f"{name} {value}" for name, value in _lib.CONSTANTS.items()]
    lines.append("version %d %d" % _lib.VERSION)
    return lines + [f"status {status}" for status in [0, *_lib.ERRORS]]


def _real_version():
    return tuple(int(x) for x in _lib.version.split(".")[:2])


class Layout(unittest.TestCase):
    def test_tables_agree_with_the_header(self):
        compiler = shutil.which(os.environ.get("CC", "cc"))
        if not compiler:
            self.skipTest("no C compiler")
        with tempfile.TemporaryDirectory() as folder:
            source, program = os.path.join(folder, "probe.c"), os.path.join(folder, "probe")
            with open(source, "w", encoding="ascii") as file:
                file.write(probe_source())
            subprocess.run([compiler, "-std=c17", "-I", HEADER, source, "-o", program], check=True)
            seen = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split("\n")[:-1]
        self.assertEqual(seen, table_lines())

    def test_library_of_the_system(self):
        """A package without a library of its own, as a distribution would make it."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.dirname(_lib.__file__), os.path.join(folder, "glofnd"), ignore=shutil.ignore_patterns("lib", "__pycache__"))
            name = "libglofnd.so.%d" % _lib.VERSION[0]
            environment = {key: value for key, value in os.environ.items() if key != "GLOFND_LIBRARY"}
            run = lambda: subprocess.run([sys.executable, "-m", "glofnd"], cwd=folder, capture_output=True, text=True, env={
                **environment, "PYTHONPATH": folder, "LD_LIBRARY_PATH": os.path.join(folder, "system")})
            missing = run()
            if missing.returncode:  # else this system has one
                self.assertIn("pip install", missing.stderr)
            os.mkdir(os.path.join(folder, "system"))
            shutil.copy(_lib.library_path(), os.path.join(folder, "system", name))
            found = run()
            self.assertEqual(found.returncode, 0, found.stderr)
            self.assertIn(f"library    {name}\n", found.stdout)

    def test_a_reader_that_ends(self):
        """`python -m glofnd --options | head` shows no traceback."""
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run([sys.executable, "-m", "glofnd", "--options"], stdout=writing, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(_lib.__file__))})
        os.close(writing)
        self.assertEqual((done.returncode, done.stderr), (141, ""))

    def test_a_library_of_another_version(self):
        path, other = _lib.library_path(), (_lib.VERSION[0], _lib.VERSION[1] + 1)
        with mock.patch.object(_lib, "VERSION", other), mock.patch.object(_lib, "library_path", lambda: path):
            with self.assertRaisesRegex(ImportError, "has version %d.%d; this package needs %d.%d" % (*_real_version(), *other)):
                _lib._load()

    def test_every_status_has_its_exception(self):
        for status, kind in _lib.ERRORS.items():
            self.assertNotEqual(_lib.library.glofnd_status_name(status), b"GLOFND_E_UNKNOWN")
            error = _lib.error_of(status, "")
            self.assertIsInstance(error, kind)
            self.assertEqual((error.status, str(error)), (status, _lib.status_text(status)))


if __name__ == "__main__":
    unittest.main()
