#!/usr/bin/env python3
"""Writes train/text/mojibake_tables.c: what every character that wrongly decoded UTF-8 can consist of stands for.

    python3 tools/generate/make_mojibake_tables.py src/data

Only the standard library is used: its codecs say which byte a character is in each encoding, and so which characters can begin
or continue a character of UTF-8. The kinds below are those by which ftfy 6.3 tells wrongly decoded text from text that only looks
odd; train/text/mojibake_rules.c has the rules about them.
"""
import os
import sys

# In the order in which they are tried, after Latin-1. Those of Windows take bytes they leave open as Latin-1.
ENCODINGS = ["cp1252", "cp1251", "cp1250", "cp1253", "cp1254", "cp1257", "iso8859_2", "mac_roman", "cp437"]
WINDOWS = 6                     # so many of them are of Windows
SUBSTITUTE = 0x1A               # the byte for a character that was lost (U+FFFD), in those of Windows

# A hyphen between two characters is a range. Bits in the order of enum gf_mojibake_kind.
KINDS = [
    "\u00a0\u00ad\u00b7\u00b4\u2013-\u2015\u2026\u2019",                        # FREE: in any company
    "\u0080-\u009f",                                                            # CONTROL
    "¤¦¨ª¬¯¸ºƒˆˇ˘˛˜†‡‰⌐◊\ufffd",                                                # ODD: hardly ever meant
    "§¶",                                                                       # LAW
    "¢£¥₧€",                                                                    # MONEY
    "¡«¿©΄΅‘‚“„•‹\uf8ff",                                                       # OPENING
    "®»˝”›™",                                                                   # CLOSING
    "²³¹±¼½¾×µ÷⁄∂∆∏∑√∞∩∫≈≠≡≤≥№",                                                # NUMERIC
    "Ò-ÖÙ-Üò-öø-üŐŌŪŲ°",                                                        # FACE: letters that faces are drawn with
    "À-ÑØÜÝĂĀĄĆČĎĐĘĚĒĖĞĢİĪĶĹĽŁĻŃŇŅŒŘŚŞŠŢŤŮŰŸŹŻŽҐ",                              # CAPITAL
    "ßà-ñăąāćčďđęěēėğģįīķĺľłļœŕśşšťüźżžґﬁﬂ",                                    # SMALL
    "ÞΑ-ΩΆΈΉΊΌΎΏΪΫЁ-Я",                                                         # CAPITAL_PLAIN
    "α-ωάέήίΰа-џ",                                                              # SMALL_PLAIN
    "│┌┐┘├┤┬┼═-╬▀▄█▌▐░▒▓",                                                      # BOX
]
# Characters that often stand for themselves beside wrongly decoded ones, though they are bytes that continue.
LENIENT = set("–—―‘’‚“”„•…")


def members(text):
    out, at = set(), 0
    while at < len(text):
        if text[at + 1:at + 2] == "-" and at + 2 < len(text):
            out |= {chr(c) for c in range(ord(text[at]), ord(text[at + 2]) + 1)}
            at += 3
        else:
            out.add(text[at])
            at += 1
    return out


def byte_of(char, number):
    """Its byte in ENCODINGS[number], 0: none."""
    if number < WINDOWS and char == "\ufffd":
        return SUBSTITUTE
    try:
        return char.encode(ENCODINGS[number])[0]
    except UnicodeEncodeError:
        code = ord(char)
        if number >= WINDOWS or not 0x80 <= code <= 0xFF:
            return 0
        return code if bytes([code]).decode(ENCODINGS[number], "replace") == "\ufffd" else 0


def role(char, row):
    """Bits behind the kinds: begins a character of two, three, four bytes; continues one; and is likely to."""
    bytes_ = set(row[:WINDOWS]) | ({ord(char)} if ord(char) < 0x100 else set())
    follows = any(0x80 <= b <= 0xBF for b in bytes_)
    roles = [any(0xC2 <= b <= 0xDF for b in bytes_), any(0xE0 <= b <= 0xEF for b in bytes_), bool(bytes_ & {0xF0, 0xF3}),
             follows, follows and char not in LENIENT]
    return sum(1 << (len(KINDS) + k) for k, yes in enumerate(roles) if yes)


def rows():
    kinds = [members(text) for text in KINDS]
    known = set().union(*kinds) | {chr(c) for c in range(0x80, 0x100)} | {"\ufffd"}
    for encoding in ENCODINGS:
        known |= set(bytes(range(0x80, 0x100)).decode(encoding, "replace"))
    for char in sorted(known):
        row = [byte_of(char, number) for number in range(len(ENCODINGS))]
        yield ord(char), sum(1 << k for k, kind in enumerate(kinds) if char in kind) | role(char, row), row


def main(folder):
    words = ["{0x%x, 0x%x, {%s}}" % (code, bits, ", ".join("0x%x" % b if b else "0" for b in row)) for code, bits, row in rows()]
    lines, line = [], "   "
    for word in words:
        if len(line) + len(word) + 2 > 130:
            lines.append(line)
            line = "   "
        line += " " + word + ","
    with open(os.path.join(folder, "mojibake_tables.c"), "w", encoding="utf-8") as f:
        f.write("/* mojibake_tables.c - made by tools/generate/make_mojibake_tables.py; do not edit. See mojibake_tables.h. */\n"
                '#include "text/mojibake_tables.h"\n\nconst gf_mojibake_row gf_mojibake_rows[] = {\n' +
                "\n".join(lines + [line])
                + "\n};\nconst int gf_mojibake_rows_n = sizeof gf_mojibake_rows / sizeof *gf_mojibake_rows;\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
