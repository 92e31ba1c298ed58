"""slow_cable.py NEAR FAR RULE - a cable whose packets arrive late, between two network devices NEAR and FAR that it makes.

RULE is a file with a number, which may change at any time: the milliseconds that a packet takes, or `cut`: packets are lost while both
ends look connected, as when a switch fails. The kernel's netem does the same if it was built with it.
"""
import collections
import fcntl
import os
import select
import struct
import sys
import time

TUNSETIFF, TAP, NO_HEADER = 0x400454CA, 2, 0x1000


def device(name: str) -> int:
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH", name.encode(), TAP | NO_HEADER))
    return end


def main(near: str, far: str, rule: str) -> None:
    ends = device(near), device(far)
    under_way = collections.deque()  # (due, receiver, packet)
    print("ready", flush=True)
    while True:
        wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        for end in select.select(ends, [], [], wait)[0]:
            try:
                packet = os.read(end, 65536)
            except OSError:  # the device is down
                continue
            with open(rule) as file:
                delay = file.read().strip()
            if delay != "cut":
                under_way.append((time.monotonic() + float(delay or 0) / 1000, ends[end == ends[0]], packet))
        while under_way and under_way[0][0] <= time.monotonic():
            _, receiver, packet = under_way.popleft()
            try:
                os.write(receiver, packet)
            except OSError:
                pass


main(*sys.argv[1:])
