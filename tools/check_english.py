#!/usr/bin/env python3
"""Checks the English of texts that a user can meet: no sentence of more than 30 words, and no phrase that BANNED lists.

usage: check_english.py [--words N] FILE...           prints FILE:LINE: what is wrong; exit code 1 if anything is

  *.md                 sentences and phrases. Code, tables, headings and addresses do not count. A piece of inline code is one
                       word. A list item is a text of its own.
  *.c, *.cu, *.inc     phrases in string literals: messages and help
  *.h                  phrases in comments and string literals
  *.py                 phrases in strings, docstrings among them
"""

import ast
import re
import sys

# (pattern, what to write instead). Patterns match prose in any case, unless they begin with (?-i:.
BANNED = [
    (r"\b(is|are|was|were|be|being) refused\b", "name who refuses: `glofnd stops`, `the loss raises`"),
    (r"\bsays so\b|\bsaid so\b|\bsaying so\b", "prints, reports, warns"),
    (r"\b(is|are) named\b(?! \w*[\"'`_/])", "name who names it: `the message names`"),
    (r"\bby the clock\b", "wall-clock"),
    (r"\b(processor time|seconds of (the )?processors?|processor s)\b", "CPU time, CPU seconds"),
    (r"\bmended\b", "fixed"),
    (r"\bdrawn images\b|\bdrawn features\b", "synthetic images"),
    (r"\bbeside\b", "next to, along with, in addition to"),
    (r"\bonce more\b", "again"),
    (r"\bso many\b", "N"),
    (r"\btold apart\b", "distinguished"),
    (r"\bthe way of (a|the)\b", "how a ... runs"),
    (r"\b(the|a|of its|their) rooms?\b", "module"),
    (r"\b(it|this|that|which|detector|what) pays\b|\bpays off for\b", "helps"),
    (r"\b(a|the|that|which|this|small|smaller|equal|constant) shares? of\b|\bshares of\b", "fraction"),
    (r"(?-i:\b(?<!there )(is|are|was) none\b)", "say what is missing or invalid"),
    (r"\bplacebo\b", "random control"),
    (r"\bmean of the linear scores\b", "average probe accuracy"),
    (r"\bmemory is announced\b|\bannounced before\b", "estimated"),
    (r"\bappears? whole or not at all\b", "atomically"),
    (r"\bencoders? of (images|texts|captions)\b", "image encoder, text encoder"),
    (r"\bembeddings of \d[\d,]* (numbers|dimensions)\b", "N-dimensional embeddings"),
    (r"\bfiles of embeddings\b", "embedding files"),
    (r"\bof the one\b|\bof the other one\b", "name the noun"),
    (r"\bone's own\b", "your own"),
    (r"\bat no cost of\b|\bat the cost of\b", "say what it costs"),
    (r"\bis at hand\b|\bwas at hand\b|\bare at hand\b", "is available"),
    (r"\bsurest\b", "most confident"),
    (r"\bis silent\b", "does not say"),
    (r"(?-i:(?:^|[.!?] )Of (?:several|the|these|all|a|an|two|equal|equally|many|one|each)\b)", "begin with if or when, not with of"),
    (r"(?-i:(?:^|[.!?] )Where (?!to |it |your |the words)[^?]*$)", "where is a place: write if, when, on machines that"),
    (r", where (there is|there are|that|it is|they are) (no|none|one|some)\b", "where is a place: write if or when"),
]
WORDS = 30


def texts(page):
    """(line, text) of every paragraph and list item of a page, without code, tables, headings and addresses."""
    found, current, first, fence, listed = [], [], 0, None, False
    for number, line in enumerate(page.split("\n") + [""], 1):
        stripped = line.strip()
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if fence:
            fence = None if mark and mark.group(1).startswith(fence) else fence
            continue
        item = re.match(r"\s*([-*+]|\d+\.)\s+", line)
        code = re.match(r" {4,}|\t", line) and not (listed and current) and not item
        ends = not stripped or mark or stripped.startswith(("|", "#", "<", "!!!", "???", "===")) or item or code
        if ends:
            if current:
                found.append((first, " ".join(current)))
            current = []
        if mark:
            fence = mark.group(1)
        if item:
            listed = True
            current, first = [line[item.end():].strip()], number
        elif not stripped.startswith(("|", "#", "<", "!!!", "???", "===")) and stripped and not mark and not code:
            if not current:
                first = number
                listed = listed and line.startswith(" ")
            current.append(stripped)
    return [(line, plain(text)) for line, text in found]


def plain(text):
    """Text without Markdown: a link is its words, inline code one word."""
    text = re.sub(r"!\[[^]]*\]\([^)]*\)", "", text)
    text = re.sub(r"(`+)(.+?)\1", lambda m: "CODE" + ("" if not m.group(2).endswith(".") else ""), text)
    text = re.sub(r"\[([^]]*)\](\([^)]*\)|\[[^]]*\])", r"\1", text)
    text = re.sub(r"\[\w+\]: \S+", "", text)
    text = re.sub(r"<https?://[^>]*>|https?://\S+", "ADDRESS", text)
    return re.sub(r"[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}", "", text)


def sentences(text):
    return [s for s in re.split(r"(?<=[.!?])[)\"']*\s+(?=[A-Z0-9\"'(λαγτ])|(?<=\S:)\s*$", text) if s.strip()]


def words(sentence):
    return [w for w in sentence.split() if re.search(r"\w", w)]


C_TEXT = re.compile(r'/\*([\s\S]*?)\*/|//([^\n]*)|"((?:[^"\\\n]|\\.)*)"|\'(?:[^\'\\]|\\.)*\'')


def texts_of_c(source, comments):
    """(line, text) of every string literal, adjacent ones joined, and, if asked for, of every comment."""
    found, end = [], -1
    for match in C_TEXT.finditer(source):
        line, comment, literal = source.count("\n", 0, match.start()) + 1, match.group(1) or match.group(2), match.group(3)
        if literal is not None:
            if found and end >= 0 and not source[end:match.start()].strip():
                found[-1] = found[-1][0], found[-1][1] + literal
            else:
                found.append((line, literal))
            end = match.end()
        elif comment and comments:
            found.append((line, re.sub(r"\n[ *]*", " ", comment)))
            end = -1
    return found


def texts_of_python(source):
    return [(node.lineno, " ".join(node.value.split())) for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def banned(text):
    for pattern, instead in BANNED:
        for match in re.finditer(pattern, text, re.IGNORECASE if not pattern.startswith("(?-i:") else 0):
            yield f"\"{match.group(0).strip()[:60]}\": {instead}"


def check(name, limit):
    with open(name, encoding="utf-8") as file:
        source = file.read()
    if name.endswith(".py"):
        found = texts_of_python(source)
    elif name.endswith(".md"):
        found = texts(source)
    else:
        found = texts_of_c(source, comments=name.endswith(".h"))
    bad = []
    for line, text in found:
        for sentence in sentences(text) if name.endswith(".md") else []:
            count = len(words(sentence))
            if count > limit:
                bad.append(f"{name}:{line}: {count} words: {sentence[:90]}...")
        bad += [f"{name}:{line}: {phrase}" for phrase in banned(text)]
    return bad


def main():
    arguments, limit = sys.argv[1:], WORDS
    if arguments[:1] == ["--words"]:
        limit, arguments = int(arguments[1]), arguments[2:]
    if not arguments:
        sys.exit(__doc__)
    bad = [line for name in arguments for line in check(name, limit)]
    print("\n".join(bad), end="\n" if bad else "")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
