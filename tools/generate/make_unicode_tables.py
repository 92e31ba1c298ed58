#!/usr/bin/env python3
"""Writes train/text/unicode_tables.c, unicode_nfc_tables.c and unicode_entity_tables.c from the tables of the Python
that runs it.

    python3 tools/generate/make_unicode_tables.py src/data

Only the standard library is used: unicodedata for the classes, str.lower for the mapping, html.entities for the names.
"""
import html.entities
import os
import sys
import unicodedata

LETTER, NUMBER, SPACE, CASED, IGNORABLE = 1, 2, 4, 8, 16
CODES = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
BARE = 1        # gf_entity.second of a name that also stands without a semicolon


def bits(code):
    """What the splitting of words and the lower-casing of a capital sigma ask about a character."""
    c, category = chr(code), unicodedata.category(chr(code))
    found = LETTER * (category[0] == "L") | NUMBER * (category[0] == "N") | SPACE * c.isspace()
    # Python has no function for "cased" and "case-ignorable", but a sigma at the end of a word shows them.
    cased = (c + "\u03a3").lower()[-1] == "\u03c2"
    seen_through = ("a" + c + "\u03a3").lower()[-1] == "\u03c2"
    return found | CASED * cased | IGNORABLE * (seen_through and not cased)


def classes():
    rows, last = [], None
    for code in range(0x110000):
        now = 0 if 0xD800 <= code <= 0xDFFF else bits(code)
        if now != last:
            rows.append(code << 5 | now)
            last = now
    return rows


def lower_runs():
    """(first, last, step, difference) of characters whose lower case is one other character."""
    runs = []
    for code in CODES:
        low = chr(code).lower() if code != 0x3A3 else "\u03c3"
        if len(low) != 1 or ord(low) == code:
            continue
        difference = ord(low) - code
        if runs and runs[-1][3] == difference and code - runs[-1][1] in (1, 2) and runs[-1][2] in (0, code - runs[-1][1]):
            runs[-1][2] = code - runs[-1][1]
            runs[-1][1] = code
        else:
            runs.append([code, code, 0, difference])
    return [(a, b, step or 1, d) for a, b, step, d in runs]


def plain_forms():
    """Characters that cleaning replaces: typographic quotes, ligatures, full- and half-width forms, separators of lines; Latin-1
    controls, which are Windows-1252 gone wrong; and what it drops: control characters, but for ESC."""
    out = {}
    for code in CODES:
        kind = unicodedata.decomposition(chr(code)).split(" ")[0]
        if kind in ("<wide>", "<narrow>") or 0xFB00 <= code <= 0xFB06 or code in (0x132, 0x133, 0x149) or 0x1C4 <= code <= 0x1CC \
                or 0x1F1 <= code <= 0x1F3:
            out[code] = unicodedata.normalize("NFKC", chr(code))
    out[0x149] = "'n"
    out[0xFB05] = "\u017ft"     # its s is long
    out[0x2BC] = "'"
    for code in range(0x2018, 0x201C):
        out[code] = "'"
    for code in range(0x201C, 0x2020):
        out[code] = '"'
    for code in range(0x80, 0xA0):
        try:
            out[code] = bytes([code]).decode("windows-1252")
        except UnicodeDecodeError:
            pass
    out[0x2028] = out[0x2029] = "\n"
    gone = [*range(0, 9), 0xB, *range(0xE, 0x1B), *range(0x1C, 0x20), 0x7F, *range(0x206A, 0x2070), 0xFEFF,
            *range(0xFFF9, 0xFFFD)]
    for code in gone:
        out[code] = ""
    for code, text in out.items():      # a replacement may itself be replaced: one look must be enough
        out[code] = "".join(out.get(ord(c), c) for c in text)
    # The words of a table row: code, then up to three characters.
    return [(code, [ord(c) for c in out[code]]) for code in sorted(out)]


def entities():
    """Names without the semicolon, sorted bytewise: (name, first, second or BARE or 0)."""
    table = html.entities.html5
    rows = []
    for name in sorted(n[:-1] for n in table if n.endswith(";")):
        value = table[name + ";"]
        bare = name in table
        assert len(value) == 1 or (len(value) == 2 and not bare)
        rows.append((name, ord(value[0]), ord(value[1]) if len(value) == 2 else BARE if bare else 0))
    return rows


def decompositions():
    """(code, first, second or 0): one step, canonical ones only. Hangul is computed."""
    rows = []
    for code in CODES:
        parts = unicodedata.decomposition(chr(code))
        if parts and parts[0] != "<":
            first, second = [int(x, 16) for x in (parts + " 0").split(" ")[:2]]
            rows.append((code, first, second))
    firsts = {row[0] for row in rows}
    assert not any(second in firsts for _, _, second in rows)
    return rows


def composed(rows):
    """Numbers of the rows that NFC puts together again, in order of their parts."""
    again = [k for k, (code, first, second) in enumerate(rows) if second and unicodedata.normalize("NFC", chr(code)) == chr(code)]
    return sorted(again, key=lambda k: rows[k][1:])


def marks(rows, pairs):
    """first code << 9 | bit 8: NFC may change it, or join it to what is before | combining class"""
    joins = {rows[k][2] for k in pairs} | set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    out, last = [], None
    for code in range(0x110000):
        char = chr(code)
        now = 0
        if not 0xD800 <= code <= 0xDFFF:
            now = unicodedata.combining(char)
            now |= 0x100 * bool(now or code in joins or unicodedata.normalize("NFC", char) != char)
        if now != last:
            out.append(code << 9 | now)
            last = now
    assert out[0] == 0 and out[1] >> 9 == 0x300         # below it the lookup is left out
    return out


def pack(words, width=130):
    """The words, with commas, on as few lines as fit."""
    lines, line = [], "   "
    for word in words:
        if len(line) + len(word) + 2 > width:
            lines.append(line)
            line = "   "
        line += " " + word + ","
    return "\n".join(lines + [line])


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        f.write(text)


def tables_text():
    runs, forms = lower_runs(), plain_forms()
    rows = ["{0x%x, {%s}}" % (code, ", ".join("0x%x" % c for c in to) if to else "0") for code, to in forms]
    version = unicodedata.unidata_version
    return f"""/* unicode_tables.c - Unicode {version}, made by tools/generate/make_unicode_tables.py; do not edit. */
#include "text/unicode.h"

/* first code point << 5 | bits: holds up to the next row */
const uint32_t gf_unicode_classes[] = {{
{pack("0x%x" % row for row in classes())}
}};
const int gf_unicode_classes_n = sizeof gf_unicode_classes / sizeof *gf_unicode_classes;

/* first, last, step, difference to the lower case */
const gf_unicode_run gf_unicode_lower_runs[] = {{
{pack("{0x%x, 0x%x, %d, %d}" % run for run in runs)}
}};
const int gf_unicode_lower_runs_n = sizeof gf_unicode_lower_runs / sizeof *gf_unicode_lower_runs;

/* what cleaning replaces; nothing: dropped */
const gf_unicode_form gf_unicode_forms[] = {{
{pack(rows)}
}};
const int gf_unicode_forms_n = sizeof gf_unicode_forms / sizeof *gf_unicode_forms;
"""


def nfc_text():
    rows = decompositions()
    pairs, version = composed(rows), unicodedata.unidata_version
    return f"""/* unicode_nfc_tables.c - Unicode {version}, made by tools/generate/make_unicode_tables.py; do not edit. */
#include "text/unicode_nfc.h"

const uint32_t gf_nfc_marks[] = {{
{pack("%d" % row for row in marks(rows, pairs))}
}};
const int gf_nfc_marks_n = sizeof gf_nfc_marks / sizeof *gf_nfc_marks;

const gf_decomposition gf_nfc_parts[] = {{
{pack("{%d, %d, %d}" % row for row in rows)}
}};
const int gf_nfc_parts_n = sizeof gf_nfc_parts / sizeof *gf_nfc_parts;

const uint16_t gf_nfc_pairs[] = {{
{pack("%d" % k for k in pairs)}
}};
const int gf_nfc_pairs_n = sizeof gf_nfc_pairs / sizeof *gf_nfc_pairs;
"""


def entities_text():
    rows = ['{"%s", 0x%x, %s}' % (name, first, "BARE" if second == BARE else "0x%x" % second if second else "0")
            for name, first, second in entities()]
    return f"""/* unicode_entity_tables.c - HTML's characters, made by tools/generate/make_unicode_tables.py; do not edit. */
#include "text/unicode.h"

#define BARE GF_ENTITY_BARE

const gf_entity gf_entities[] = {{
{pack(rows)}
}};
const int gf_entities_n = sizeof gf_entities / sizeof *gf_entities;
"""


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(sys.argv[1], "unicode_tables.c", tables_text())
    write(sys.argv[1], "unicode_nfc_tables.c", nfc_text())
    write(sys.argv[1], "unicode_entity_tables.c", entities_text())
