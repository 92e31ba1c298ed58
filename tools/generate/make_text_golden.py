#!/usr/bin/env python3
"""Text as ftfy and CLIP clean it, for tests/text/unit_text.c and to measure how often train/text/words.c agrees.

    python3 tools/generate/make_text_golden.py COUNT OUT.tsv              captions of many kinds and their cleaned form, both as
                                                                 hexadecimal UTF-8: tests/fixtures/bpe/clean.tsv has 400
    python3 tools/generate/make_text_golden.py --lines CAPTIONS.txt OUT.tsv      the same for the lines of a file
    python3 tools/generate/make_text_golden.py --digest                   the number in tests/text/unit_text.c

Needs ftfy (6.3.1). The tests read any such file: GLOFND_TEXT_GOLDEN=OUT.tsv build/tests/unit_text
"""
import html
import random
import sys
import unicodedata

import ftfy

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
INSERTED = ["\ufffd", "?", "&amp;", "&eacute;", "&amp;quot;", "&#8217;", "&#x1F600;", "&nbsp;", "&copy 2020", "é", "e\u0301", "ﬁ",
            "“", "ｶﾞ", "\n", "<", "\u2028", "\u0085", "\u1100\u1161\u11a8", "q\u0307\u0323", "\x00", "\ufeff"]
# Blocks in which every character has had its properties for long, so that the version of Unicode does not matter.
SETTLED = [(0x20, 0x250), (0x300, 0x370), (0x1100, 0x1200), (0x1E00, 0x1F00), (0x3041, 0x3097), (0xAC00, 0xD7A4)]


def varied(draw, pieces):
    """A text, or words of several; in capitals; cut; with something foreign in it."""
    text = draw.choice(TEXTS) if draw.random() < 0.4 else " ".join(draw.choice(pieces) for _ in range(draw.randrange(1, 9)))
    if draw.random() < 0.1:
        text = text.upper()
    if draw.random() < 0.5:
        at = draw.randrange(len(text) + 1)
        text = text[:at] + draw.choice(INSERTED) + text[at:]
    return text[:draw.randrange(1, len(text) + 1)] if draw.random() < 0.1 else text


def cleaned(text):
    """open_clip's clean="lower"."""
    return " ".join(html.unescape(html.unescape(ftfy.fix_text(text))).split()).lower()


def write(path, captions):
    """Captions that look wrongly decoded to ftfy are left out: they are not repaired here."""
    sound = [text for text in captions if ftfy.fix_encoding(text) == text]
    with open(path, "w", encoding="ascii") as out:
        for text in sound:
            out.write(text.encode("utf-8").hex() + "\t" + cleaned(text).encode("utf-8").hex() + "\n")
    print(f"{len(sound)} captions; {len(captions) - len(sound)} left out")


class Digest:
    """FNV-1a, 64 bits, over 32-bit words."""

    def __init__(self):
        self.sum = 0xCBF29CE484222325

    def add(self, word):
        self.sum = (self.sum ^ word) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF


def nfc_digest():
    d = Digest()
    for first, end in SETTLED:
        for code in range(first, end):
            for text in (chr(code), "e" + chr(code), chr(code) + "\u0301", "a\u0323" + chr(code) + "\u0302", "\u1100" + chr(code)):
                for c in unicodedata.normalize("NFC", text) + "\0":
                    d.add(ord(c))
    print("NFC", hex(d.sum), unicodedata.unidata_version)


def main():
    if sys.argv[1:] == ["--digest"]:
        nfc_digest()
    elif len(sys.argv) == 4 and sys.argv[1] == "--lines":
        write(sys.argv[3], open(sys.argv[2], encoding="utf-8").read().splitlines())
    elif len(sys.argv) == 3:
        draw, pieces = random.Random(5), [w for text in TEXTS for w in text.split(" ")]
        write(sys.argv[2], [varied(draw, pieces) for _ in range(int(sys.argv[1]))])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
