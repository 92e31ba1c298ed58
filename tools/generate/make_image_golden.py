#!/usr/bin/env python3
"""make_image_golden.py > tests/fixtures/image_golden.h - tiny JPEG and PNG files, and the pixels PIL reads from them.

Needs numpy and Pillow. The pictures are computed. Another version of Pillow may write other files; their pixels stay comparable,
because both sides of the header come from one run.
"""
import io
import struct
import zlib

import numpy as np
from PIL import Image

random = np.random.RandomState(5)
entries = []


def crc32c(data):
    table = []
    for i in range(256):
        for _ in range(8):
            i = (i >> 1) ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def picture(width, height, channels=3):
    y, x = np.mgrid[0:height, 0:width].astype(float)
    a = np.stack([127 + 100 * np.sin(x / 3 + k) + 20 * np.cos(y / 2 * (k + 1)) for k in range(channels)], 2)
    return np.clip(a + random.randint(-12, 12, a.shape), 0, 255).astype(np.uint8)


def add(name, data, note, expect=None):
    rgb = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")) if expect is None else expect
    entries.append((name, data, rgb.shape[1], rgb.shape[0], crc32c(rgb.tobytes()), note))


def save(image, form, **options):
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def raw_png(width, height, depth, colour, rows, interlace=0):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def plain_rows(a):
    return b"".join(b"\0" + np.ascontiguousarray(row).tobytes() for row in a)


def jpegs():
    rgb = Image.fromarray(picture(23, 17))
    add("jpeg_420", save(rgb, "JPEG", quality=80, subsampling=2), "4:2:0")
    add("jpeg_422", save(rgb, "JPEG", quality=80, subsampling=1), "4:2:2")
    add("jpeg_444_progressive", save(rgb, "JPEG", quality=80, subsampling=0, progressive=True), "4:4:4, progressive")
    add("jpeg_gray", save(rgb.convert("L"), "JPEG", quality=85), "gray")
    add("jpeg_cmyk", save(Image.fromarray(picture(14, 11, 4), "CMYK"), "JPEG", quality=85), "CMYK")
    ycck = bytearray(save(Image.fromarray(picture(14, 11, 4), "CMYK"), "JPEG", quality=85))
    ycck[ycck.find(b"Adobe") + 11] = 2          # the transform of the Adobe marker: the same bytes now mean YCCK
    add("jpeg_ycck", bytes(ycck), "YCCK")


def pngs_by_pil():
    add("png_rgb", save(Image.fromarray(picture(9, 7)), "PNG"), "8-bit RGB")
    add("png_rgba", save(Image.fromarray(picture(9, 7, 4), "RGBA"), "PNG"), "RGBA: alpha is dropped")
    add("png_gray", save(Image.fromarray(picture(9, 7, 1)[:, :, 0]), "PNG"), "8-bit gray")
    add("png_gray_alpha", save(Image.fromarray(picture(9, 7, 2), "LA"), "PNG"), "gray with alpha")
    add("png_bilevel", save(Image.fromarray(picture(9, 7, 1)[:, :, 0]).convert("1"), "PNG"), "1-bit gray")
    add("png_palette", save(Image.fromarray(picture(9, 7)).quantize(13), "PNG"), "palette of 13 colours: 4 bits")
    palette = Image.fromarray(picture(9, 7)).quantize(13)
    add("png_palette_transparent", save(palette, "PNG", transparency=3), "with tRNS")


def pngs_by_hand():
    a = random.randint(0, 65536, (5, 6, 3)).astype(">u2")
    add("png_rgb16", raw_png(6, 5, 16, 2, plain_rows(a)), "16-bit RGB: high bytes")
    a = random.randint(0, 65536, (5, 6)).astype(">u2")
    high = np.repeat((a >> 8).astype(np.uint8)[:, :, None], 3, 2)
    add("png_gray16", raw_png(6, 5, 16, 0, plain_rows(a)), "16-bit gray: high bytes (here PIL clips instead)", high)
    a = random.randint(0, 256, (5, 2)).astype(np.uint8)
    add("png_gray2", raw_png(8, 5, 2, 0, plain_rows(a)), "2-bit gray")
    a = picture(9, 7)
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    rows = b"".join(plain_rows(a[y0::dy, x0::dx]) for x0, y0, dx, dy in passes)
    add("png_interlaced", raw_png(9, 7, 8, 2, rows, 1), "Adam7")


def write():
    print('/* image_golden.h - tiny image files and the CRC-32C of their pixels as PIL 13 gives them with convert("RGB").')
    print(" * Pictures are computed, not photographed. Made by tools/generate/make_image_golden.py. */")
    print("#ifndef TESTS_IMAGE_GOLDEN_H\n#define TESTS_IMAGE_GOLDEN_H\n\n#include <stddef.h>\n#include <stdint.h>\n")
    for name, data, *_ in entries:
        print("static const uint8_t %s[] = {" % name)
        for k in range(0, len(data), 24):
            print("    " + " ".join("%d," % b for b in data[k:k + 24]))
        print("};")
    print("\ntypedef struct golden_image {\n    const char *name;\n    const uint8_t *bytes;\n    size_t size;")
    print("    int width, height;")
    print("    uint32_t crc;               /* of [height][width][3] */\n} golden_image;\n")
    print("static const golden_image golden_images[] = {")
    for name, _, width, height, crc, note in entries:
        print('    {"%s", %s, sizeof %s, %d, %d, 0x%08xu}, /* %s */' % (name, name, name, width, height, crc, note))
    print("};\n\n#endif")


jpegs()
pngs_by_pil()
pngs_by_hand()
write()
