#!/usr/bin/env python3
"""Prepares the pages of the documentation site: those of docs/, and a reference made of tables, docstrings and headers.

usage: docs_pages.py SOURCE PROGRAM OUT        writes OUT/pages and OUT/mkdocs.yml; tools/docs.sh calls it

Nothing of the package is imported: Python pages come from the syntax tree, command pages from `PROGRAM VERB --help-all`. A link to a file
of the repository becomes a page that shows the file; with GLOFND_REPOSITORY=https://... it becomes a link into that repository.
"""

import ast
import os
import posixpath
import re
import shutil
import subprocess
import sys

SOURCE, PROGRAM, OUT = (os.path.abspath(x) for x in sys.argv[1:4]) if len(sys.argv) == 4 else sys.exit(__doc__)
PAGES = os.path.join(OUT, "pages")
REPOSITORY = os.environ.get("GLOFND_REPOSITORY", "").rstrip("/")

# Search lists pages for users first.
BOOST = [("start/", 4), ("tutorials/", 4), ("howto/", 4), ("help/", 4), ("install", 4), ("when-to-use", 4), ("concepts/", 3), ("index", 3), ("glossary", 2),
         ("results", 2), ("benchmarks", 2), ("CHANGELOG", 0.3), ("CONTRIBUTING", 0.3), ("ARCHITECTURE", 0.3), ("ROADMAP", 0.3), ("FORMATS", 0.5), ("reference/c", 0.5)]
LANGUAGES = {".py": "python", ".c": "c", ".h": "c", ".sh": "sh", ".cfg": "ini", ".sweep": "ini", ".toml": "toml", ".cmake": "cmake", ".yml": "yaml"}
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "ARCHITECTURE.md", "FORMATS.md", "ROADMAP.md")  # pages that lie in the root of the repository
shown = {}  # files and folders of the repository that pages link to: path -> page


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(page, text, boost=None, searched=True):
    """A page below PAGES, with what the search needs to know of it."""
    path = os.path.join(PAGES, page)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if boost is None:
        boost = next((b for start, b in BOOST if page.startswith(start)), 1)
    search = "exclude: true" if not searched else f"boost: {boost}" if boost != 1 else ""
    front = f"---\nsearch:\n  {search}\n---\n\n" if search else ""
    with open(path, "w", encoding="utf-8") as file:
        file.write(front + text)


def cell(text):
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_").replace("~", "\\~")


def code(text):
    return "`" + text.replace("|", "¦") + "`" if text else ""


# ----- links to the repository -----


def source_page(path):
    """The page that shows a file or a folder of the repository."""
    path = path.rstrip("/")
    if path not in shown:
        shown[path] = "source/" + path + ("/files.md" if os.path.isdir(os.path.join(SOURCE, path)) else ".md")
    return shown[path]


def write_source_page(path, page):
    full = os.path.join(SOURCE, path)
    if os.path.isdir(full):
        names = sorted(n for n in os.listdir(full) if not n.startswith((".", "__pycache__")))
        lines = [f"# {path}/", ""]
        for name in names:
            inner = os.path.join(full, name)
            known = os.path.isfile(inner) and os.path.splitext(name)[1] in LANGUAGES
            there = posixpath.relpath(source_page(posixpath.join(path, name)), posixpath.dirname(page)) if known else ""
            lines.append(f"- [{name}]({there})" if known else f"- {name}")
        readme = os.path.join(full, "README.md")
        text = "\n".join(lines) + "\n"
        write(page, (rewritten(read(readme), posixpath.join(path, "README.md"), page) + "\n\n## Files\n\n" + "\n".join(lines[2:]) + "\n")
              if os.path.exists(readme) else text, searched=False)
    elif path.endswith(".md"):
        write(page, rewritten(read(full), path, page), searched=False)
    else:
        write(page, f"# {path}\n\n````{LANGUAGES.get(os.path.splitext(path)[1], 'text')}\n{read(full)}\n````\n", searched=False)


def rewritten(text, path, page):
    """The text of a page at `path` in the repository, with links as from `page` of the site."""

    def link(match):
        words, target, anchor = match.group(1), match.group(2), match.group(3) or ""
        if re.match(r"[a-z]+:|#", target) or not target:
            return match.group(0)
        there = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if there.startswith("docs/"):
            goal = there[5:]
        elif there in OUTSIDE:
            goal = there
        elif there == "README.md":
            goal = "index.md"
        elif not os.path.exists(os.path.join(SOURCE, there)):
            return words
        elif REPOSITORY:
            kind = "tree" if os.path.isdir(os.path.join(SOURCE, there)) else "blob"
            return f"[{words}]({REPOSITORY}/{kind}/main/{there}{anchor})"
        else:
            goal = source_page(there)
        return f"[{words}]({posixpath.relpath(goal, posixpath.dirname(page) or '.')}{anchor})"

    parts = re.split(r"(^```[\s\S]*?^```)", text, flags=re.MULTILINE)  # code stays as it is
    return "".join(part if i % 2 else re.sub(r"\[([^][]*(?:\[[^]]*\])?[^][]*)\]\(([^)#\s]*)(#[^)\s]*)?\)", link, part) for i, part in enumerate(parts))


# ----- commands and configuration keys -----


def help_of(*verb):
    return subprocess.run([PROGRAM, *verb, "--help-all"], check=True, capture_output=True, text=True).stdout


def verbs_of(*verb):
    listed = subprocess.run([PROGRAM, *verb, "--help"], check=True, capture_output=True, text=True).stdout
    return re.findall(r"^  ([a-z]+) .*", listed, re.MULTILINE)


def flags(lines):
    """[(group, flag, [lines of text])] and the lines that are none of it."""
    found, rest, group, column = [], [], "", 0
    for number, line in enumerate(lines):
        match = re.match(r"  (--\S+(?: \S+)*?)(?:\s{2,}(\S.*))?$", line)
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if match:
            column = match.start(2) if match.group(2) else 0
            found.append((group, match.group(1), [match.group(2)] if match.group(2) else []))
        elif found and found[-1][0] == group and re.match(r"\s{12,}\S", line):
            found[-1][2].append(line.strip())
        elif re.match(r"[a-z][a-z ,]*$", line) and following.startswith("  --"):
            group = line
        else:
            rest.append(line)
            if line.strip():
                group = group if not found else group
    return found, rest


def values(text):
    """(meaning, values and default) of a key's help."""
    joined = " ".join(text)
    match = re.search(r"\s*((?:one of |an? (?:integer|number|share)|0 or 1\b|(?<=\s)a number)[^;]*(?:;.*)?)$", joined)
    if match and (match.group(1).startswith(("one of ", "an integer in", "a number in", "0 or 1"))):
        return joined[:match.start()], match.group(1).replace("|", ", ")
    return joined, ""


def write_commands():
    pages = []
    for verb in verbs_of():
        for what in verbs_of(verb) if verb == "eval" else [None]:
            words = [verb] + ([what] if what else [])
            text = help_of(*words)
            found, rest = flags(text.rstrip("\n").split("\n"))
            page = "commands/" + "-".join(words) + ".md"
            lines = [f"# glofnd {' '.join(words)}", "", "```text", *[line for line in rest if not line.startswith("Keys of files")], "```", ""]
            keys = [f for f in found if f[0]]
            plain = [f for f in found if not f[0]]
            if plain:
                lines += ["| flag | meaning |", "|---|---|"] + [f"| {code(f[1])} | {cell(' '.join(f[2]))} |" for f in plain]
            if keys and verb == "pretrain":
                lines += ["", "All keys of a run are flags, too: [configuration keys](../reference/config.md)."]
                write_keys(keys)
            elif keys:
                for group in dict.fromkeys(f[0] for f in keys):
                    lines += ["", f"## {group}", "", "| flag | meaning |", "|---|---|"]
                    lines += [f"| {code(f[1])} | {cell(' '.join(f[2]))} |" for f in keys if f[0] == group]
            write(page, "\n".join(lines) + "\n")
            pages.append((" ".join(words), page))
    lines = ["# Command line", "", "Made from the program's own tables of flags. `glofnd VERB --help` shows the same in a terminal.", ""]
    lines += [f"- [glofnd {name}]({posixpath.relpath(page, 'reference')})" for name, page in pages]
    write("reference/commands.md", "\n".join(lines) + "\n")
    return pages


def write_keys(keys):
    lines = ["# Configuration keys", "",
             "Every key is a line `key = value` of a configuration file and a flag `--key value` of `glofnd pretrain`. `-` and `_` are the same in a key. "
             "This page is made from the program's table of keys.", ""]
    for group in dict.fromkeys(k[0] for k in keys):
        lines += [f"## {group[0].upper()}{group[1:]}", "", "| key | meaning | values |", "|---|---|---|"]
        for _, flag, text in (k for k in keys if k[0] == group):
            meaning, allowed = values(text)
            lines.append(f"| {code(flag.lstrip('-'))} | {cell(meaning)} | {cell(allowed)} |")
        lines.append("")
    write("reference/config.md", "\n".join(lines) + "\n", boost=1.5)


# ----- the Python package -----

MODULES = [("glofnd", ["_discover", "_mine", "_keys"], "Functions of the package itself: they need NumPy alone."),
           ("glofnd.torch", ["torch", "_cached"], "For PyTorch 2.4 or later."),
           ("glofnd.sentence_transformers", ["sentence_transformers"], "For sentence-transformers."),
           ("glofnd.transformers", ["transformers"], "For the Trainer of Hugging Face."),
           ("glofnd.open_clip", ["open_clip"], "For open_clip."),
           ("glofnd.jax", ["jax"], "For JAX."),
           ("glofnd.numpy", ["numpy"], "The same step on NumPy arrays.")]
HIDDEN = {"STATE_FILE", "ROW", "Cached"}


def signature(node, name):
    arguments = ast.unparse(node.args)
    arguments = re.sub(r"^(self|cls)(, |$)", "", arguments)
    arguments = re.sub(r": (?:Union|Optional|Any|Callable|dict|list|tuple|Sequence|Iterable)(?:\[(?:[^\[\]]|\[(?:[^\[\]]|\[[^\]]*\])*\])*\])?", "", arguments)
    arguments = re.sub(r": (?:bool|int|float|str|Any|torch\.Tensor|np\.ndarray|nn\.Module|[A-Z]\w+)\b", "", arguments)
    arguments = re.sub(r"(\w) = ", r"\1=", arguments)
    line = f"{name}({arguments})"
    if len(line) > 110:
        parts, depth, current = [], 0, ""
        for c in arguments:
            depth += (c in "([{") - (c in ")]}")
            if c == "," and depth == 0:
                parts.append(current.strip() + ",")
                current = ""
            else:
                current += c
        rows, row = [], "    "
        for part in parts + [current.strip()]:
            if len(row) + len(part) > 108:
                rows.append(row.rstrip())
                row = "    "
            row += part + " "
        line = f"{name}(\n" + "\n".join(rows + [row.rstrip()]) + ")"
    return f"```python\n{line}\n```\n"


def prose(doc):
    """A docstring as Markdown: paragraphs, tables of "name   meaning" lines, and code."""
    if not doc:
        return ""
    out = []
    for part in re.split(r"\n\s*\n", ast_clean(doc)):
        lines, items = part.split("\n"), []
        if all(line.startswith("    ") or not line.strip() for line in lines):
            out.append("```python\n" + "\n".join(line[4:] for line in lines) + "\n```")
            continue
        for line in lines:
            match = re.match(r"(\S(?:[^\s]| (?! ))*?)\s{2,}(\S.*)$", line)
            if match:
                items.append([match.group(1), match.group(2)])
            elif items and line.startswith("  "):
                items[-1][1] += " " + line.strip()
            else:
                items.append([None, line.strip()])
        text, table = "", []
        for name, meaning in items:
            if name is None and not table:
                text += " " + meaning
            elif name is None:
                table[-1][1] += " " + meaning
            else:
                table.append([name, meaning])
        if text.strip():
            out.append(text.strip().replace("*", "\\*"))
        if table:
            out.append("\n".join(["| | |", "|---|---|"] + [f"| {code(n)} | {cell(m)} |" for n, m in table]))
    return "\n\n".join(out) + "\n"


def ast_clean(doc):
    """inspect.cleandoc"""
    lines = doc.expandtabs().split("\n")
    indents = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    margin = min(indents) if indents else 0
    return "\n".join([lines[0].strip()] + [line[margin:] for line in lines[1:]]).strip("\n")


def write_python():
    lines = ["# Python API", "", "Made from the docstrings of the package. [Using GloFND from Python](../python.md) explains how the parts work together.", ""]
    for module, files, about in MODULES:
        lines += [f"## {module}", "", about, ""]
        for name in files:
            tree = ast.parse(read(os.path.join(SOURCE, "python", "glofnd", name + ".py")))
            public = [ast.literal_eval(n.value) for n in tree.body if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == "__all__"]
            for node in tree.body:
                if getattr(node, "name", None) not in (public[0] if public else ()) or node.name in HIDDEN:
                    continue
                lines += [f"### {module}.{node.name}", ""]
                if isinstance(node, ast.ClassDef):
                    init = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
                    if init:
                        lines += [signature(init, node.name)]
                    lines += [prose(ast.get_docstring(node, clean=False)), ""]
                    for method in node.body:
                        documented = isinstance(method, ast.FunctionDef) and ast.get_docstring(method)
                        if documented and not method.name.startswith("_"):
                            lines += [f"#### {node.name}.{method.name}", "", signature(method, method.name), prose(ast.get_docstring(method, clean=False)), ""]
                elif isinstance(node, ast.FunctionDef):
                    lines += [signature(node, node.name), prose(ast.get_docstring(node, clean=False)), ""]
    errors = ast.parse(read(os.path.join(SOURCE, "python", "glofnd", "_lib.py")))
    classes = [n for n in errors.body if isinstance(n, ast.ClassDef) and ast.get_docstring(n) and not n.name.startswith("_")
               and any(getattr(b, "id", "").endswith("Error") or getattr(b, "id", "") == "Exception" for b in n.bases)]
    if classes:
        lines += ["## Exceptions", "", "| exception | also a | when |", "|---|---|---|"]
        lines += [f"| `glofnd.{n.name}` | {', '.join(code(b.id) for b in n.bases if isinstance(b, ast.Name) and b.id != 'Error')} | {cell(ast.get_docstring(n))} |"
                  for n in classes]
    write("reference/python.md", "\n".join(lines) + "\n", boost=2)


# ----- the C interface -----


def write_c():
    for name, title, about in (("glofnd.h", "C API", "The method: options, context, anchor store, thresholds, steps."),
                               ("glofnd_discover.h", "C API: discovery", "Embedding files, search over all pairs, decisions."),
                               ("glofnd_experimental.h", "C API: experimental", "May change in every minor version. Define `GLOFND_EXPERIMENTAL` first.")):
        out = [f"# {title}", "", f"`#include <{name}>`. {about} The header is the manual.", "", "```c"]
        for line in read(os.path.join(SOURCE, "include", name)).split("\n"):
            match = re.match(r"/\* [-=]{5,} (.*?) [-=]{5,}(?: \*/)?$", line)
            if match:
                out += ["```", "", f"## {match.group(1)}", "", "```c"] + ([] if line.endswith("*/") else ["/*"])
            else:
                out.append(line)
        text = re.sub(r"```c\n\s*```\n", "", "\n".join(out) + "\n```\n")
        write("reference/" + {"glofnd.h": "c.md", "glofnd_discover.h": "c-discover.md", "glofnd_experimental.h": "c-experimental.md"}[name], text)


# ----- all -----


def write_navigation(commands):
    """mkdocs.yml with the pages of commands. A page that it names and that is not there, or one of docs/ that it does not name, is an error."""
    lines, named = [], set()
    for line in read(os.path.join(SOURCE, "mkdocs.yml")).split("\n"):
        match = re.match(r"(\s+- )(?:.*: )?([\w/.-]+\.md)$", line)
        if match:
            named.add(match.group(2))
        lines.append(line)
        if line.strip() == "- Command line:":
            indent = line[:len(line) - len(line.lstrip())] + "    "
            lines += [f"{indent}- reference/commands.md"] + [f"{indent}- glofnd {name}: {page}" for name, page in commands]
    text = "\n".join(lines)
    docs = os.path.join(SOURCE, "docs")
    there = {os.path.relpath(os.path.join(folder, name), docs) for folder, _, names in os.walk(docs) for name in names if name.endswith(".md")}
    wrong = [f"its navigation names {page}, which does not exist" for page in sorted(named) if not os.path.exists(os.path.join(PAGES, page))]
    wrong += [f"its navigation lacks docs/{page}" for page in sorted(there - named)]
    if wrong:
        sys.exit("\n".join("docs: mkdocs.yml: " + line for line in wrong))
    text = text.replace("docs_dir: docs", "docs_dir: pages\nsite_dir: site")
    if REPOSITORY:
        text += f"\nrepo_url: {REPOSITORY}\n"
    with open(os.path.join(OUT, "mkdocs.yml"), "w", encoding="utf-8") as file:
        file.write(text)


def main():
    shutil.rmtree(PAGES, ignore_errors=True)
    for folder, _, names in os.walk(os.path.join(SOURCE, "docs")):
        for name in names:
            path = os.path.join(folder, name)
            page = os.path.relpath(path, os.path.join(SOURCE, "docs"))
            if name.endswith(".md"):
                write(page, rewritten(read(path), "docs/" + page, page))
            else:
                os.makedirs(os.path.dirname(os.path.join(PAGES, page)), exist_ok=True)
                shutil.copy(path, os.path.join(PAGES, page))
    for page in OUTSIDE:
        write(page, rewritten(read(os.path.join(SOURCE, page)), page, page))
    commands = write_commands()
    write_python()
    write_c()
    written = set()
    while set(shown) - written:  # folders show files
        for path in sorted(set(shown) - written):
            written.add(path)
            write_source_page(path, shown[path])
    write_navigation(commands)


main()
