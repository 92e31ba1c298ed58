"""Writes .npy files for tests without NumPy: PYTHONPATH=tests/sh python3 -c 'from npy_file import npy; ...'"""
import struct


def npy(path, descr, shape, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    head += " " * ((-11 - len(head)) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)
