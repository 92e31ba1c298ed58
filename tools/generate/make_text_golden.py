#!/usr/bin/env python3
"""Text as ftfy and CLIP clean it, for tests/text/unit_text.c and to measure how often train/text/bpe_clean.c agrees.

    python3 tools/generate/make_text_golden.py COUNT OUT.tsv              captions of many kinds and their cleaned form, both as
                                                                 hexadecimal UTF-8: tests/fixtures/bpe/clean.tsv has 400
    python3 tools/generate/make_text_golden.py --lines CAPTIONS.txt OUT.tsv      the same for the lines of a file
    python3 tools/generate/make_text_golden.py --digests                  the numbers in tests/text/unit_text.c

Needs ftfy (6.3.1). The tests read any such file: GLOFND_TEXT_GOLDEN=OUT.tsv build/tests/unit_text
"""
import html
import random
import sys
import unicodedata

import ftfy
import ftfy.badness

TEXTS = [
    "a photo of a dog – running", "Café résumé naïve garçon, déjà vu à la carte", "Größe über Straße, schöne Grüße aus München",
    "¿Dónde está el niño? ¡Qué mañana más fría!", "São Paulo é uma cidade; coração, às vezes àquele",
    "Zażółć gęślą jaźń w Łodzi",
    "Příliš žluťoučký kůň úpěl ďábelské ódy", "Árvíztűrő tükörfúrógép", "İstanbul'da güneşli bir gün, çok şık",
    "Привет, мир! Кошка сидит на окне — «да»", "Добрий день, їжак і ґанок", "Γειά σου Κόσμε, η γάτα", "שלום עולם, חתול",
    "مرحبا بالعالم، قطة جميلة", "नमस्ते दुनिया", "สวัสดีชาวโลก", "日本語の写真、猫と犬。", "一只红色的猫在沙发上", "안녕하세요 고양이",
    "“smart quotes” — it’s the dog’s bone… • bullet", "I ❤️ NY 😀 🎉 👩‍👩‍👧 🇩🇪", "price: 5€, £3, ¥100 ©2020 ™ ®",
    "ąčęėįšųūž lietuvių",
    "Tiếng Việt: con mèo đen", "Það er köttur á borðinu", "°C ½ ¼ × ÷ ± µm²", "“Don’t panic,” she said…", "à la mode",
    "voilà le travail", "fâché, où, Noël, çà et là", "mixed “ascii” and Кириллица 猫 with é", "√ math ≠ ≈ ∞ π",
]
EIGHT_BIT = ["latin-1", "sloppy-windows-1252", "sloppy-windows-1251", "sloppy-windows-1250", "sloppy-windows-1253",
             "sloppy-windows-1254", "sloppy-windows-1257", "iso-8859-2", "macroman", "cp437", "windows-1252", "cp850", "koi8-r"]
INSERTED = ["\ufffd", "?", "&amp;", "&eacute;", "&ATILDE;&SUP3;", "&SZLIG;", "\x1b[31m", "é", "e\u0301", "ﬁ", "“", "ｶﾞ", "\n",
            "<", "\u2028", "\u0085", "\u1100\u1161\u11a8", "q\u0307\u0323", "&NotEqualTilde;", "\x00"]


# One character of each kind, for the pairs of --digests.
SECONDS = [0x20, 0x61, 0x80, 0xA0, 0xA9, 0xB0, 0xB2, 0xC3, 0xE9, 0xF3, 0x17E, 0x192, 0x3B1, 0x402, 0x2019, 0x20AC, 0x2122, 0x2550]


def wrongly_decoded(text, draw, encodings=EIGHT_BIT):
    return text.encode("utf-8").decode(draw.choice(encodings), "replace")


def garbled(draw, pieces):
    """A text as it is, decoded wrongly once, twice, in parts, with bytes lost, or with something foreign in it."""
    text = draw.choice(TEXTS) if draw.random() < 0.4 else " ".join(draw.choice(pieces) for _ in range(draw.randrange(1, 9)))
    way = draw.randrange(9)
    if 1 <= way <= 5:
        text = wrongly_decoded(text, draw)
    if way == 5:
        text = wrongly_decoded(text, draw)
    if way == 6:
        text = " ".join(wrongly_decoded(w, draw, EIGHT_BIT[:8]) if draw.random() < 0.4 else w for w in text.split(" "))
    if way == 7:
        text = wrongly_decoded(text, draw).replace("\u00a0", " ")
    if way == 8:
        text, at = wrongly_decoded(text, draw, EIGHT_BIT[:7]), draw.randrange(len(text) + 1)
        text = text[:at] + draw.choice(INSERTED) + text[at:]
    if draw.random() < 0.1:
        text = text.upper()
    return text[:draw.randrange(1, len(text) + 1)] if draw.random() < 0.1 else text


def cleaned(text):
    """open_clip's clean="lower"."""
    return " ".join(html.unescape(html.unescape(ftfy.fix_text(text))).split()).lower()


def write(path, captions):
    repaired = 0
    with open(path, "w", encoding="ascii") as out:
        for text in captions:
            repaired += ftfy.fix_encoding(text) != text
            out.write(text.encode("utf-8").hex() + "\t" + cleaned(text).encode("utf-8").hex() + "\n")
    print(f"{len(captions)} captions; ftfy repairs the encoding of {repaired}")


class Digest:
    """FNV-1a, 64 bits, over 32-bit words."""

    def __init__(self):
        self.sum = 0xCBF29CE484222325

    def add(self, word):
        self.sum = (self.sum ^ word) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF


def digests():
    """NFC of every character below U+30000, by itself and in company; which sequences of the characters below U+2600 with one of
    each kind look wrong."""
    d = Digest()
    for code in range(0x20, 0x30000):
        if 0xD800 <= code <= 0xDFFF:
            continue
        for text in (chr(code), "e" + chr(code), chr(code) + "\u0301", "a\u0323" + chr(code) + "\u0302", "\u1100" + chr(code)):
            for c in unicodedata.normalize("NFC", text) + "\0":
                d.add(ord(c))
    print("NFC", hex(d.sum), unicodedata.unidata_version)
    d = Digest()
    for first in range(0x20, 0x2600):
        for second in SECONDS:
            d.add(ftfy.badness.is_bad(chr(first) + chr(second)))
            d.add(ftfy.badness.is_bad(chr(second) + chr(first)))
            d.add(ftfy.badness.is_bad("a" + chr(first) + chr(second)))
            d.add(ftfy.badness.is_bad(chr(first) + chr(second) + chr(first)))
    print("suspected", hex(d.sum))


def main():
    if sys.argv[1:] == ["--digests"]:
        digests()
    elif len(sys.argv) == 4 and sys.argv[1] == "--lines":
        write(sys.argv[3], open(sys.argv[2], encoding="utf-8").read().splitlines())
    elif len(sys.argv) == 3:
        draw, pieces = random.Random(5), [w for text in TEXTS for w in text.split(" ")]
        write(sys.argv[2], [garbled(draw, pieces) for _ in range(int(sys.argv[1]))])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
