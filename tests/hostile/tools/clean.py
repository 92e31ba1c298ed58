"""Checks files that hold hostile text: what a terminal would obey, broken UTF-8, JSON, CSV, TSV, LaTeX and HTML.

    clean.py --terminal FILE...               printed text
    clean.py --files FILE_OR_FOLDER...        files of results, by their endings
"""
import csv
import html.parser
import io
import json
import os
import re
import sys

DIRECTION = re.compile("[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")
problems = []


def problem(path, text):
    problems.append("%s: %s" % (path, text))


def text_of(path):
    try:
        return open(path, "rb").read().decode("utf-8")
    except UnicodeDecodeError as e:
        problem(path, "no UTF-8: %s" % e)
        return None


def check_terminal(path):
    text = text_of(path)
    for what, pattern in (("control character", CONTROL), ("mark of direction", DIRECTION)):
        found = text is not None and pattern.search(text)
        if found:
            problem(path, "%s %r" % (what, text[max(0, found.start() - 20):found.end() + 20]))
    if text and "\nline: glofnd: all fine" in text:
        problem(path, "a forged line")


def check_tsv(path, text):
    lines = text.split("\n")
    cells = lines[0].count("\t")
    for line in lines[:-1]:
        if line.count("\t") != cells or CONTROL.search(line.replace("\t", "")):
            problem(path, "line %r" % line[:100])
            return
    if lines[-1]:
        problem(path, "no line break at the end")


def check_jsonl(path, text):
    for line in text.rstrip("\n").split("\n"):
        json.loads(line)


class Page(html.parser.HTMLParser):
    """Elements and attributes that the program never writes."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.path = path

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("onerror", "onload", "onmouseover") or "alert(1)" in (value or "") and name.startswith("on"):
                problem(self.path, "attribute %s of <%s>" % (name, tag))
        if tag == "img" and dict(attrs).get("src") == "x":
            problem(self.path, "an injected <img>")


def check_html(path, text):
    Page(path).feed(text)
    if re.search(r"<script>alert\(1\)", text):
        problem(path, "an injected script")


def check_tex(path, text):
    if "\\input" in text or "\\write18" in text:
        problem(path, "a command of LaTeX")
    if CONTROL.search(text):
        problem(path, "control characters")


def check_csv(path, text):
    rows = list(csv.reader(io.StringIO(text, newline="")))
    if len({len(r) for r in rows}) > 1:
        problem(path, "rows of different lengths")


def check_json(path, text):
    json.loads(text)


def check_txt(path, text):
    if CONTROL.search(text):
        problem(path, "control characters")


def check_js(path, text):
    """A piece of a page: GF("a0",JSON);"""
    name = os.path.splitext(os.path.basename(path))[0]
    start = 'GF("%s",' % name
    if not text.startswith(start) or not text.endswith(");\n"):
        problem(path, "not a piece of a page")
    json.loads(text[len(start):-3])
    if "<" in text or ">" in text or CONTROL.search(text):
        problem(path, "markup or control characters")


KINDS = {".tsv": check_tsv, ".json": check_json, ".jsonl": check_jsonl, ".html": check_html, ".tex": check_tex, ".csv": check_csv,
         ".txt": check_txt, ".js": check_js}


def check_file(path):
    kind = KINDS.get(os.path.splitext(path)[1])
    text = text_of(path) if kind else None
    if text is None:
        return
    try:
        kind(path, text)
    except ValueError as e:
        problem(path, str(e))


def check_tree(path):
    if os.path.isdir(path):
        for name in sorted(os.listdir(path)):
            check_tree(os.path.join(path, name))
    elif os.path.exists(path):
        check_file(path)


def main():
    if sys.argv[1] == "--terminal":
        for path in sys.argv[2:]:
            check_terminal(path)
    else:
        for path in sys.argv[2:]:
            check_tree(path)
    for text in problems[:10]:
        print(text.encode("unicode_escape").decode())
    return 1 if problems else 0


sys.exit(main())
