"""False negatives and duplicates among finished embeddings: glofnd.discover().

    result = glofnd.discover(embeddings, alpha=0.01)
    result.threshold, result.neighbours, result.similarities     # arrays, a row per embedding
    result.pairs(), result.duplicates(), result.components()     # tables
    result.to_pandas(), result.to_html("page.html"), result.save("folder")

The result is that of the program `glofnd discover`, and save() writes its files.
"""

from __future__ import annotations

import ctypes
import glob
import html
import importlib.util
import os
import shutil
import signal
import tempfile
import threading
import weakref
from typing import Any, Callable, Iterable, NamedTuple, Optional, Union

import numpy as np

from . import _lib
from ._embeddings import (
    Files, index_of, is_dataset, labels_of, matrix_of, names_of, paths_of, refuse_another_order, rows_of, table_of, titles_of,
)
from ._lib import ArgumentError, c_text, library

__all__ = ["Discovery", "discover", "leaks"]

_TABLES = ("pairs", "anchors", "duplicates", "components", "duplicate_groups", "remove", "outliers", "label_issues", "leaks")
_RULES = ("first", "central", "label")


# ----- progress ---------------------------------------------------------------------------------------------------------------


class _Watch:
    """The callback of the library, which also ends a search at Ctrl-C. Python calls handlers of signals when it runs, that is in the
    callback: a handler that raises would raise outside of it, so that of the search only takes note."""

    def __init__(self, progress: Any):
        self.failure: Optional[BaseException] = None
        self.interrupted = False
        self.bar: Any = None
        self.tell: Optional[Callable[[float], Any]] = progress if callable(progress) else None
        if progress is True:
            try:
                from tqdm.auto import tqdm
                self.bar = tqdm(total=100, unit="%", bar_format="{l_bar}{bar}| {elapsed}<{remaining}")
            except ImportError:
                pass
        self.callback = _lib.PROGRESS(self._call)
        self.handler: Any = None
        if threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self.handler = signal.signal(signal.SIGINT, self._note)

    def _note(self, _number: int, _frame: Any) -> None:
        self.interrupted = True

    def _call(self, _user: Any, share: float) -> int:
        try:
            if self.bar is not None:
                self.bar.update(max(0.0, 100 * share - self.bar.n))
            if self.tell is not None and self.tell(share) is False:
                return 1
            return int(self.interrupted)
        except BaseException as failure:  # noqa: BLE001  it cannot cross C
            self.failure = failure
            return 1

    def tick(self, share: float) -> int:
        """The same from Python: 1 to stop."""
        return self._call(None, share)

    def close(self, finished: bool) -> None:
        """After the search: `finished`: it has a result."""
        if self.handler is not None:
            signal.signal(signal.SIGINT, self.handler)
        if self.bar is not None:
            if finished:
                self.bar.update(max(0.0, 100 - self.bar.n))
            self.bar.close()
        if self.failure is not None:
            raise self.failure
        if self.interrupted:
            raise KeyboardInterrupt


# ----- result -----------------------------------------------------------------------------------------------------------------


class Pairs(NamedTuple):
    """Listed pairs above the threshold of their anchor, most similar first within an anchor; an element per pair."""

    anchor: np.ndarray
    other: np.ndarray
    similarity: np.ndarray
    threshold: np.ndarray
    mutual: np.ndarray  # above both thresholds


class Duplicates(NamedTuple):
    """Listed pairs of duplicates; `exact`: of equal bytes."""

    group: np.ndarray
    a: np.ndarray
    b: np.ndarray
    similarity: np.ndarray
    exact: np.ndarray


class Components(NamedTuple):
    """Sets of rows that pairs connect, largest first: number of rows, of pairs, smallest row."""

    rows: np.ndarray
    pairs: np.ndarray
    first: np.ndarray


class Removed(NamedTuple):
    """Rows that are removed: the kept row that each is a duplicate of (-1: a bad row), and their similarity."""

    row: np.ndarray
    kept: np.ndarray
    similarity: np.ndarray


class Outliers(NamedTuple):
    """Rows by their mean similarity to their nearest rows, duplicates apart, lowest first."""

    row: np.ndarray
    nearest: np.ndarray  # that is no duplicate; -1: none is listed
    score: np.ndarray
    outlier: np.ndarray  # the score is below the fence of a box plot


class LabelIssues(NamedTuple):
    """Rows whose neighbours speak for another label, the clearest first."""

    row: np.ndarray
    suggested: np.ndarray
    score: np.ndarray
    probability: np.ndarray  # of the suggested label
    votes: np.ndarray
    votes_for: np.ndarray  # the suggested label
    votes_own: np.ndarray


class Leaks(NamedTuple):
    """Pairs of duplicates in two splits."""

    a: np.ndarray
    b: np.ndarray
    similarity: np.ndarray  # NaN: connected by other duplicates


class Discovery:
    """What glofnd.discover() found. Arrays have a row per embedding; rows that were left out have NaN, -1 and 0.

    threshold     float32 [n]   similarity above which a pair is a false negative
    above, mutual int64 [n]     others above the threshold; of these, those above their own threshold, too
    neighbours    int32 [n][top], similarities float32 [n][top]   most similar rows, best first, also below the threshold
    component     int32 [n]     number in components(), -1: in none
    duplicate_group  int32 [n]  number in components(duplicates=True), -1: in none
    bad_rows      int64         rows that are not finite, or all zero
    first, other, similarity    listed pairs as compressed rows: those of row i are first[i] .. first[i+1]-1
    kept          int32 [n]     the row itself: kept; another row, which is kept: a duplicate of it, removed; -1: bad, removed
    keep, remove  int64         rows of keep.txt and remove.txt
    negatives     int32 [n][negatives]   most similar rows that are not above the threshold
    sample        int32         rows of a diverse subset, in the order of choice
    splits, split_leaks         names of splits; int64 [a][b]: rows of split a with a duplicate in split b
    labels, classes             int32 [n] labels (-1: unknown), and the names of classes 0, 1, 2 ... where labels were names; else None
    precision, recall, f1       with labels: means over anchors
    """

    def __init__(self, handle: Any, names: Optional[list[str]], dim: int, labels: Optional[np.ndarray] = None,
                 classes: Optional[list[str]] = None, source: str = "memory", other_names: Optional[list[str]] = None,
                 query: Optional[str] = None):
        self._handle: Any = handle
        view = _lib.DiscoveryArrays()
        library.glofnd_discovery_view(handle.value, ctypes.byref(view))
        self.names, self.dim, self.labels, self.classes, self.source = names, dim, labels, classes, source
        self.n, self.top, self.rank, self.usable = view.n, view.top, view.rank, view.usable
        array = lambda name, kind, *shape: _array(handle, getattr(view, name), kind, shape)  # noqa: E731
        n, top = self.n, self.top
        self.kind = array("kind", np.uint8, n)
        self.threshold = array("threshold", np.float32, n)
        self.above, self.mutual = array("above", np.int64, n), array("mutual", np.int64, n)
        self.same_label, self.copies = array("hits", np.int64, n), array("copies", np.int64, n)
        self.neighbours, self.similarities = array("neighbour", np.int32, n, top), array("similarity", np.float32, n, top)
        self.component, self.duplicate_group = array("component", np.int32, n), array("group", np.int32, n)
        self.first = array("first", np.int64, n + 1)
        self.other, self.similarity = array("other", np.int32, view.pairs), array("pair_similarity", np.float32, view.pairs)
        self._mutual = array("pair_mutual", np.uint8, view.pairs).view(np.bool_)
        self._dup = [array(name, kind, view.duplicates) for name, kind in (
            ("dup_a", np.int32), ("dup_b", np.int32), ("dup_similarity", np.float32), ("dup_exact", np.uint8))]
        self._parts = Components(*(array("component_" + x, np.int64, view.components) for x in Components._fields))
        self._groups = Components(*(array("group_" + x, np.int64, view.groups) for x in Components._fields))
        self.duplicate_limit = view.dup
        self.pairs_above, self.mutual_pairs, self.duplicate_pairs = view.pairs_above, view.mutual_pairs, view.duplicate_pairs
        self.precision, self.recall, self.f1 = view.precision, view.recall, view.f1
        self.negatives = array("negative", np.int32, n, view.negatives)
        self.query, self.other_names = query, other_names
        if query is not None:  # nothing is decided: no row of the stored ones is removed
            self.splits, self.kept = [], np.arange(n, dtype=np.int32)
            self.kept[self.kind > 0] = -1
        else:
            self.decide()

    def decide(self, keep: Any = "first", *, splits: Any = None, outliers: int = 1000, sample: int = 0,
               pred_probs: Any = None, rows: int = 0, probe: bool = False) -> "Discovery":
        """Decides again, without a search: which of two duplicates is kept, and what discover() explains of the others.

        rows: keep this number of rows; duplicates are removed at the similarity that this takes (keep_limit).

        pred_probs: [n][classes], a classifier's out-of-sample probability of label 0, 1, ... for each row. Label issues are then those
        of confident learning.
        probe: label issues also by a linear classifier on the embeddings, which predicts each row by the others.
        """
        if self._handle is None:
            raise ArgumentError("a result that was pickled holds arrays only: decide before")
        spec = _lib.DecideSpec(outliers=_number("outliers", outliers, 0) or -1, sample=_number("sample", sample, 0), rows=_number("rows", rows, 0),
                               probe=int(bool(probe)))
        if isinstance(keep, str):
            if keep not in _RULES:
                raise ArgumentError(f"keep is {keep!r}; expected {', '.join(map(repr, _RULES))}, or a number of each row: the larger is kept")
            spec.keep = _lib.CONSTANTS["GLOFND_KEEP_" + keep.upper()]
        else:
            score = np.ascontiguousarray(keep, np.float64)
            if score.shape != (self.n,):
                raise ArgumentError(f"keep has the shape {score.shape}; expected a number of each of the {self.n} rows")
            spec.keep, spec.score = _lib.CONSTANTS["GLOFND_KEEP_SCORE"], score.ctypes.data
        if pred_probs is not None:
            shares = np.ascontiguousarray(pred_probs, np.float32)
            if shares.ndim != 2 or shares.shape[0] != self.n or shares.shape[1] < 2:
                raise ArgumentError(f"pred_probs has the shape {shares.shape}; expected ({self.n}, classes), with two classes or more")
            spec.pred_probs, spec.pred_classes = shares.ctypes.data, shares.shape[1]
        parts = _splits(splits)
        texts = [c_text(name) for name, _, _ in parts]
        table = (_lib.RowSplit * max(len(parts), 1))()
        for k, (_, first, rows) in enumerate(parts):
            table[k].name, table[k].first, table[k].rows = texts[k], first, rows
        spec.split, spec.splits = ctypes.addressof(table), len(parts)
        view = _lib.Decisions()
        _lib.checked(library.glofnd_discovery_decide, self._handle.value, ctypes.byref(spec), ctypes.byref(view))
        copy = lambda name, kind, *shape: np.array(_array(self._handle, getattr(view, name), kind, shape))  # noqa: E731
        self.kept, self.kept_similarity = copy("kept", np.int32, self.n), copy("kept_similarity", np.float32, self.n)
        self.keep_limit = view.limit
        self.outlier_limit, self.outliers_found = view.outlier_limit, view.outliers_found
        score = copy("outlier_score", np.float32, view.outliers)
        self._outliers = Outliers(copy("outlier", np.int32, view.outliers), copy("outlier_nearest", np.int32, view.outliers), score,
                                  score < np.float32(view.outlier_limit))
        self._issues = LabelIssues(
            copy("issue", np.int32, view.issues), copy("issue_label", np.int32, view.issues), copy("issue_score", np.float64, view.issues),
            copy("issue_probability", np.float64, view.issues), *(copy(name, np.int32, view.issues) for name in LabelIssues._fields[4:]))
        self.splits = [name for name, _, _ in parts]
        self.split_leaks, self.split_exact = (copy(name, np.int64, view.splits, view.splits) for name in ("leak", "leak_exact"))
        self._leaks = Leaks(copy("leak_a", np.int32, view.leaks), copy("leak_b", np.int32, view.leaks),
                            copy("leak_similarity", np.float32, view.leaks))
        self.sample, self.sample_reach = copy("sample", np.int32, view.samples), view.sample_reach
        return self

    @property
    def bad_rows(self) -> np.ndarray:
        return np.flatnonzero(self.kind)

    @property
    def remove(self) -> np.ndarray:
        return np.flatnonzero(self.kept != np.arange(self.n))

    @property
    def keep(self) -> np.ndarray:
        return np.flatnonzero(self.kept == np.arange(self.n))

    def removed(self) -> Removed:
        return Removed(self.remove, self.kept[self.remove], self.kept_similarity[self.remove])

    def outliers(self) -> Outliers:
        return self._outliers

    def label_issues(self) -> LabelIssues:
        """Needs labels."""
        return self._issues

    def leaks(self) -> Leaks:
        """Needs splits."""
        return self._leaks

    def pairs(self) -> Pairs:
        anchor = np.repeat(np.arange(self.n, dtype=np.int32), np.diff(self.first))
        return Pairs(anchor, self.other, self.similarity, self.threshold[anchor], self._mutual)

    def duplicates(self) -> Duplicates:
        a, b, similarity, exact = self._dup
        return Duplicates(np.full(len(a), -1, np.int32) if self.query is not None else self.duplicate_group[a], a, b, similarity, exact.view(np.bool_))

    def components(self, duplicates: bool = False) -> Components:
        """Rows connected by mutual pairs; or, with `duplicates`, groups of duplicates."""
        return self._groups if duplicates else self._parts

    def members(self, number: int, duplicates: bool = False) -> np.ndarray:
        """The rows of a component, or of a group of duplicates."""
        return np.flatnonzero((self.duplicate_group if duplicates else self.component) == number)

    def graph(self, distances: bool = False) -> Any:
        """The listed neighbours as a sparse matrix of SciPy, [n][n]: similarities; or `distances` 1 - similarity, which cleanlab
        (knn_graph) and scikit-learn (metric="precomputed") take. Rows that were left out are empty."""
        from scipy.sparse import csr_matrix
        listed = self.neighbours >= 0
        first = np.concatenate([[0], np.cumsum(listed.sum(1))])
        values = self.similarities[listed]
        return csr_matrix((np.maximum(1 - values.astype(np.float64), 0) if distances else values, self.neighbours[listed], first),
                          shape=(self.n, self.n))

    # ----- tables -----

    def _columns(self, table: str) -> dict[str, np.ndarray]:
        if table == "pairs":
            found = self.pairs()
            return {**found._asdict(), **self._names_of(anchor_name=found.anchor), **self._others_of(other_name=found.other),
                    **self._labels_of(anchor_label=found.anchor, other_label=found.other)}
        if table == "anchors":
            names = {} if self.names is None else {"name": np.asarray(self.names, object)}
            nearest = self.neighbours[:, 0] if self.top else np.full(self.n, -1, np.int32)
            return {"threshold": self.threshold, "nearest": nearest, "above": self.above, "mutual": self.mutual,
                    "component": self.component, "duplicate_group": self.duplicate_group, **names,
                    **self._labels_of(label=np.arange(self.n))}
        if table == "duplicates":
            copies = self.duplicates()
            return {**copies._asdict(), **self._names_of(a_name=copies.a), **self._others_of(b_name=copies.b),
                    **self._labels_of(a_label=copies.a, b_label=copies.b)}
        if table == "remove":
            gone = self.removed()
            return {**gone._asdict(), **self._names_of(name=gone.row), **self._labels_of(label=gone.row)}
        if table == "outliers":
            alone = self.outliers()
            return {**alone._asdict(), **self._names_of(name=alone.row), **self._labels_of(label=alone.row)}
        if table == "label_issues":
            doubts = self.label_issues()
            suggested = doubts.suggested if self.classes is None else np.asarray([*self.classes, None], object)[doubts.suggested]
            return {**doubts._asdict(), "suggested": suggested, **self._labels_of(label=doubts.row), **self._names_of(name=doubts.row)}
        if table == "leaks":
            both = self.leaks()
            return {**both._asdict(), **self._names_of(a_name=both.a, b_name=both.b), **self._labels_of(a_label=both.a, b_label=both.b)}
        if table in _TABLES:
            return dict(self.components(table == "duplicate_groups")._asdict())
        raise ArgumentError(f"table is {table!r}; expected one of {', '.join(_TABLES)}")

    def _names_of(self, **rows: np.ndarray) -> dict[str, np.ndarray]:
        if self.names is None:
            return {}
        names = np.asarray(self.names, object)
        return {key: names[value] for key, value in rows.items()}

    def _others_of(self, **rows: np.ndarray) -> dict[str, np.ndarray]:
        """The same of rows that others are compared with."""
        if self.query is None:
            return self._names_of(**rows)
        return {} if self.other_names is None else {key: np.asarray(self.other_names, object)[value] for key, value in rows.items()}

    def _labels_of(self, **rows: np.ndarray) -> dict[str, np.ndarray]:
        """Columns of labels, as names where they have some (None: unknown)."""
        if self.labels is None:
            return {}
        labels = self.labels if self.classes is None else np.asarray([*self.classes, None], object)[self.labels]
        return {key: labels[value] for key, value in rows.items()}

    def to_pandas(self, table: str = "pairs") -> Any:
        """A DataFrame: "pairs", "anchors", "duplicates", "components", "duplicate_groups", "remove", "outliers",
        "label_issues" or "leaks"."""
        import pandas
        return pandas.DataFrame(self._columns(table))

    def save(self, folder: Union[str, os.PathLike], *, source: Optional[str] = None, replace: bool = False, format: str = "tsv",
             graph: bool = False) -> None:
        """Writes the files of `glofnd discover` (docs/discover.md), all or none: tables as "tsv" or "parquet". `source`: what the
        summary calls the input: the paths, or "memory". `graph`: also the listed neighbours as a sparse matrix for SciPy, graph.npz."""
        if self._handle is None:
            raise ArgumentError("a result that was pickled holds arrays only: save it before")
        if format not in ("tsv", "parquet"):
            raise ArgumentError(f"format is {format!r}; expected 'tsv' or 'parquet'")
        place, origin = os.fsencode(folder), os.fsencode(self.source if source is None else source)
        if b"\0" in place + origin:
            raise ArgumentError("a path has a zero byte")
        names, classes, others = _texts(self.names), _texts(self.classes), _texts(self.other_names)
        files = _lib.DiscoveryFiles(source=origin, names=ctypes.cast(names, ctypes.c_void_p), replace=int(replace),
                                    other_names=ctypes.cast(others, ctypes.c_void_p),
                                    query_source=None if self.query is None else os.fsencode(self.query),
                                    classes=ctypes.cast(classes, ctypes.c_void_p), class_count=len(self.classes or ()),
                                    parquet=int(format == "parquet"), graph=int(graph))
        _lib.checked(library.glofnd_discovery_save, self._handle.value, place, ctypes.byref(files))

    # ----- pages -----

    def _facts(self) -> list[tuple[str, str]]:
        facts = [("embeddings", f"{self.n} x {self.dim}" + (f", {self.n - self.usable} left out" if self.usable < self.n else "")),
                 ("threshold", f"similarity of rank {self.rank} of an anchor; mean {np.nanmean(self.threshold):.4f}"),
                 ("above", f"{_count(self.pairs_above, 'pair')} (anchor, other), {len(self.other)} listed" + (
                     "; the threshold is the largest similarity itself: use a larger alpha, or k" if self.rank == 1 else "")),
                 ("mutual", f"{_count(self.mutual_pairs, 'pair')} above both thresholds"),
                 ("components", f"{len(self._parts.rows)}" + (f"; the largest has {self._parts.rows[0]} rows"
                                                              if len(self._parts.rows) else "")),
                 ("duplicates", f"{_count(self.duplicate_pairs, 'pair')} in {_count(len(self._groups.rows), 'group')}"),
                 ("keep", f"{self.n - len(self.remove)} of {self.n} rows: no duplicate of a kept row, no bad row")]
        if self.query is not None:
            facts = [fact for fact in facts if fact[0] not in ("components", "keep")]
        if np.isinf(self.threshold).any():  # only duplicates were searched
            facts = [fact for fact in facts if fact[0] in ("embeddings", "duplicates", "keep")]
        elif self.labels is not None:
            facts.append(("labels", f"precision {self.precision:.4f}, recall {self.recall:.4f}, F1 {self.f1:.4f}"))
        return facts

    def __repr__(self) -> str:
        return "\n".join(f"{key:12}{value}" for key, value in self._facts())

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th style='text-align:left'>{html.escape(key)}</th><td>{html.escape(value)}</td></tr>"
                       for key, value in self._facts())
        return f"<table>{rows}</table>"

    def _html_table(self, table: str, rows: np.ndarray) -> str:
        columns = {key: value[rows] for key, value in self._columns(table).items()}
        head = "".join(f"<th>{html.escape(key)}</th>" for key in columns)
        lines = []
        for i in range(len(rows)):
            cells = (f"{x[i]:.4f}" if x.dtype.kind == "f" else str(x[i]) for x in columns.values())
            lines.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
        return f"<table><tr>{head}</tr>{''.join(lines)}</table>"

    def to_html(self, path: Union[str, os.PathLike], *, rows: int = 200) -> None:
        """A page by itself: the numbers, and the first `rows` lines of each table, the most similar ones first. (The program's
        --html has images, too.)"""
        order = {"pairs": np.argsort(-self.similarity, kind="stable"), "duplicates": np.argsort(-self._dup[2], kind="stable"),
                 "components": np.arange(len(self._parts.rows)), "duplicate_groups": np.arange(len(self._groups.rows))}
        parts = [f"<h2>{table.replace('_', ' ')} ({len(at)})</h2>{self._html_table(table, at[:rows])}" for table, at in order.items()]
        style = ("body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}td,th{padding:2px 10px;border-bottom:1px solid "
                 "#ddd;text-align:right}")
        page = (f"<!doctype html><meta charset='utf-8'><title>glofnd.discover</title><style>{style}</style>"
                f"<h1>False negatives and duplicates</h1>{self._repr_html_()}{''.join(parts)}\n")
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(page)

    def __getstate__(self) -> dict[str, Any]:
        return {**{key: np.array(value) if isinstance(value, np.ndarray) else value for key, value in self.__dict__.items()},
                "_handle": None, "_dup": [np.array(x) for x in self._dup],
                "_parts": Components(*map(np.array, self._parts)), "_groups": Components(*map(np.array, self._groups))}


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _texts(texts: Optional[list[str]]) -> Any:
    """An array of C texts; None: NULL."""
    return None if not texts else (ctypes.c_char_p * len(texts))(*map(c_text, texts))


class _Handle:
    """A glofnd_discovery; freed with the last array that shows its memory."""

    def __init__(self, value: int, rows: Any):
        self.value, self.rows = value, rows  # files that are streamed are read again for decisions
        weakref.finalize(self, library.glofnd_discovery_free, value)


class _Memory:
    """Memory of a result for NumPy, which keeps this object as the base of the array."""

    def __init__(self, handle: _Handle, address: int, dtype: Any, shape: tuple[int, ...]):
        self.handle = handle
        self.__array_interface__ = {"version": 3, "typestr": np.dtype(dtype).str, "shape": shape, "data": (address, True)}


def _array(handle: _Handle, address: Optional[int], dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    if not address or 0 in shape:
        return np.empty(shape, dtype)
    return np.asarray(_Memory(handle, address, dtype, shape))


def _load_blas() -> None:
    """cuBLASLt of pip's nvidia packages, if it is installed: the library finds it by name once it is loaded. Without it the search on
    a GPU works, slower."""
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations if spec and spec.submodule_search_locations else ():
        for path in sorted(glob.glob(os.path.join(place, "*", "lib", "libcublasLt.so.*"))):
            try:
                ctypes.CDLL(path)
                return
            except OSError:
                continue


def _number(name: str, value: Any, least: int, most: int = 1 << 62) -> int:
    """A whole number as an argument; those of NumPy and tensors of one are numbers."""
    value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ArgumentError(f"{name} is {value!r}; expected a number")
    if isinstance(value, float) and not value.is_integer() or abs(value) > 1 << 62:
        raise ArgumentError(f"{name} is {value!r}; expected a whole number")
    if not least <= value <= most:
        raise ArgumentError(f"{name} is {value}; expected {least} " + ("or more" if most >= 1 << 62 else f"to {most}"))
    return int(value)


def _share(alpha: Any) -> float:
    alpha = alpha.item() if hasattr(alpha, "item") and getattr(alpha, "ndim", 1) == 0 else alpha
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)):
        raise ArgumentError(f"alpha is {alpha!r}; expected a number")
    if not 0 < alpha < 1:
        raise ArgumentError(f"alpha is {alpha}; expected a number in (0, 1)")
    return float(alpha)


def _similarity(duplicates: Any) -> dict[str, Any]:
    """What duplicates are, as fields of the library's struct."""
    if isinstance(duplicates, str) and duplicates == "auto":
        return {"duplicates": _lib.CONSTANTS["GLOFND_DUPLICATES_DEFAULT"]}
    if isinstance(duplicates, str) and duplicates == "exact":
        return {"duplicates": _lib.CONSTANTS["GLOFND_DUPLICATES_EXACT"]}
    try:
        value = 0.0 if isinstance(duplicates, bool) else float(duplicates)
    except (TypeError, ValueError, RuntimeError):
        value = 0.0
    if not 0 < value <= 1:
        raise ArgumentError(f'duplicates is {duplicates!r}; expected a similarity above 0, up to 1, "exact" or "auto"')
    return {"duplicates": _lib.CONSTANTS["GLOFND_DUPLICATES_ABOVE"], "dup": value}


_OF_THE_PROGRAM = {"dup": "duplicates", "html": "to_html() of the result", "force": "replace"}


def _refuse_others(options: dict[str, Any]) -> None:
    for name in options:
        here = _OF_THE_PROGRAM.get(name)
        known = "alpha, k, labels, names, device, top, max_pairs, duplicates, memory, threads, progress, column, id, label_column, tensor, keep, " \
            "splits, outliers, sample, negatives, approx, only_duplicates, center, probe, pred_probs, rows, query, stored, query_names, out, format, replace, graph, resume, engine, workers, patience, embed, batch"
        raise _lib.OptionError(f'unknown option "{name}"; ' + (f"here its name is {here}" if here else f"there are {known}"))


def _splits(splits: Any) -> list[tuple[str, int, int]]:
    """{name: (first, end)}, or a range or slice of rows, as (name, first, rows)."""
    out = []
    for name, rows in dict(splits or {}).items():
        if isinstance(rows, (range, slice)):
            if rows.step not in (None, 1):
                raise ArgumentError(f"split {name!r} is {rows!r}; expected rows one after the other")
            rows = (rows.start or 0, rows.stop)
        try:
            first, end = (_number(f"split {name!r}", row, 0) for row in rows)
        except (TypeError, ValueError):
            raise ArgumentError(f"split {name!r} is {rows!r}; expected (first, end)") from None
        out.append((str(name), first, end - first))
    return out


def _plain(column: Any) -> list[Any]:
    return column.to_pylist() if hasattr(column, "to_pylist") else list(column)


def _of_table(x: Any, paths: Optional[list[str]], asked: dict[str, str], names: Any, labels: Any) -> tuple[Any, Any, Any, Any]:
    """Embeddings, names, labels and names of classes: of the columns of a table, or as given."""
    if paths is not None or (not asked and not is_dataset(x)):
        return x, names, labels, None
    if titles_of(x) is None or "tensor" in asked:
        raise ArgumentError(f"{', '.join('label_column' if key == 'label' else key for key in asked)}: for "
                            f"{'.safetensors files' if 'tensor' in asked else 'files and tables with columns'}; the embeddings are a {type(x).__name__}")
    table = table_of(x, asked.get("column"), asked.get("id"), asked.get("label"))
    index = index_of(x) if table.names is None and names is None else table.names
    return (table.embeddings, index if names is None else names, table.labels if "label" in asked else labels,
            table.classes if "label" in asked else None)


def leaks(*parts: Any, duplicates: Union[float, str] = 0.98, names: Optional[Iterable[str]] = None, **options: Any) -> Discovery:
    """Splits that share samples: rows of one that have a duplicate in another. The result has `splits`, `split_leaks` and leaks().

    parts       embeddings of each split, as discover() takes them; the first one stays whole: result.keep has its rows
    names       of the splits; of two: train and test
    options     as of discover()
    """
    titles = list(names or (("train", "test") if len(parts) == 2 else (f"split_{k + 1}" for k in range(len(parts)))))
    if len(parts) < 2 or len(titles) != len(parts):
        raise ArgumentError(f"{len(parts)} splits and {len(titles)} names; expected two splits or more, a name for each")
    paths = [paths_of(part) for part in parts]
    files = [path for path in paths if path is not None]
    columns = {key: options[key] for key in ("column", "id", "tensor") if options.get(key) is not None}
    if len(files) == len(parts):
        counts, rows = [Files(path, **columns).n for path in files], [name for path in files for name in path]
    elif files:
        raise ArgumentError("some splits are files and others are arrays; give all of them in one way")
    else:
        tables = [_of_table(part, None, columns, None, None) for part in parts]
        arrays = [matrix_of(table[0]) for table in tables]
        counts, rows = [len(x) for x in arrays], np.concatenate(arrays)
        texts = [names_of(table[1], len(x)) or [] for table, x in zip(tables, arrays)]
        options = {key: value for key, value in options.items() if key not in columns}
        if all(texts):
            options["row_names"] = [name for part in texts for name in part]
    ends = np.cumsum(counts).tolist()
    if "alpha" not in options and "k" not in options and not options.get("only_duplicates"):
        options["only_duplicates"] = True
    return discover(rows, duplicates=duplicates, names=options.pop("row_names", None),
                    splits={name: (end - n, end) for name, n, end in zip(titles, counts, ends)}, **options)


def _half_of_memory() -> int:
    """As in C: tasks on other machines cut the search as this one does."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (OSError, ValueError):
        return 0


def _parts(files: Optional[Files], resume: Any, out: Any, memory: Optional[int], engine: Optional[str]) -> tuple[Any, bool]:
    """The folder of finished blocks, and whether it is a temporary one; None: the search is done in memory."""
    if out is not None and (not isinstance(out, (str, os.PathLike)) or not os.fspath(out)):
        raise ArgumentError(f"out is {out!r}; expected the path of a folder")
    if not isinstance(resume, (bool, str, os.PathLike)) or resume == "":
        raise ArgumentError(f"resume is {resume!r}; expected the path of a folder, or True")
    if resume is True and out is None:
        raise ArgumentError("resume=True keeps blocks next to the result: give out, or the folder of blocks as resume")
    place = os.fsdecode(resume) if isinstance(resume, (str, os.PathLike)) else None
    if place is None and out is not None:
        place = os.path.join(os.fsdecode(out), "").rstrip("/") + ".partial"
    streamed = files is not None and memory is not None and 4 * files.n * files.dim > memory
    if not resume and not streamed and engine is None:
        return None, False
    if files is None:
        raise ArgumentError(f"{'resume' if resume else 'engine'} needs embeddings in files, which can be read again: save them, and pass the path")
    if place is None and engine is not None:
        raise ArgumentError("engine needs a folder of blocks that all processes share: give out, or resume")
    if place is not None and "\0" in place:
        raise ArgumentError(f"resume is {resume!r}; expected the path of a folder")
    return (place, False) if place is not None else (tempfile.mkdtemp(prefix="glofnd-"), True)


def _check_place(out: Any, replace: bool, format: str) -> None:  # noqa: A002
    """Before a search that may take hours."""
    if format not in ("tsv", "parquet"):
        raise ArgumentError(f"format is {format!r}; expected 'tsv' or 'parquet'")
    if os.path.exists(out) and not replace:
        raise _lib.FileError(f"{os.fsdecode(out)!r} exists; replace=True replaces an earlier result")


def run_search(rows: Any, label: Optional[np.ndarray], search: dict[str, Any], watch: Optional[_Watch] = None,
               alive: Any = None) -> Optional[_Handle]:
    """The search of the library; None: that of a worker, which has no result."""
    matrix = {"files": rows.handle} if isinstance(rows, Files) else {
        "n": rows.n, "dim": rows.dim, "x": rows.pointer, "stride": rows.stride, "dtype": rows.dtype}
    spec = _lib.DiscoverSpec(**matrix, label=0 if label is None else label.ctypes.data, **{
        **search, "parts": None if search["parts"] is None else os.fsencode(search["parts"])})
    if watch is not None:
        spec.progress = watch.callback
    out = ctypes.c_void_p()
    _lib.checked(library.glofnd_discover, ctypes.byref(spec), ctypes.byref(out))
    return _Handle(out.value, (rows, alive)) if out.value else None


def _compare(source: Any, query: Any, stored: Any, texts: Optional[list[str]], query_names: Any, *, watch_of: Any, place: Any,
             asked: dict[str, Any], path: bool) -> Discovery:
    """New rows against those of a stored result."""
    out, replace, format = place  # noqa: A001
    if out is not None:
        _check_place(out, replace, format)
    new = rows_of(Files(paths_of(query) or []).read() if paths_of(query) is not None else query)
    if new.dim != source.dim:
        raise ArgumentError(f"query has {new.dim} dimensions, the embeddings {source.dim}")
    names = names_of(index_of(query) if query_names is None else query_names, new.n)
    folder = tempfile.mkdtemp(prefix="glofnd-") if isinstance(stored, Discovery) else None
    watch, handle = _Watch(watch_of), None
    try:
        if folder is not None:
            stored.save(folder, replace=True)
        handle = run_search(source, None, {**asked, "parts": None, "stored": os.fsencode(folder or stored), "query": new.pointer,
                                           "query_n": new.n, "query_stride": new.stride, "query_dtype": new.dtype}, watch, new)
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        watch.close(handle is not None)
    found = Discovery(handle, names, source.dim, source=source.source if path else "memory", other_names=texts,
                      query=(paths_of(query) or ["memory"])[0])
    if out is not None:
        found.save(out, replace=replace, format=format)
    return found


def discover(embeddings: Any, alpha: Optional[float] = None, k: Optional[int] = None, *, labels: Any = None, names: Any = None,
             device: str = "cpu", top: int = 20, max_pairs: int = 10_000_000, duplicates: Union[float, str] = "auto",
             memory: Optional[int] = None, threads: int = 0, progress: Union[None, bool, Callable[[float], Any]] = None,
             column: Optional[str] = None, id: Optional[str] = None, label_column: Optional[str] = None,  # noqa: A002
             tensor: Optional[str] = None, keep: Any = "first", rows: int = 0, splits: Any = None, outliers: int = 1000, sample: int = 0,
             negatives: int = 0, approx: int = 0, only_duplicates: bool = False, graph: bool = False,
             resume: Union[bool, str, os.PathLike] = False, out: Union[None, str, os.PathLike] = None, format: str = "tsv",  # noqa: A002
             replace: bool = False, center: bool = False, probe: bool = False, pred_probs: Any = None, engine: Optional[str] = None, workers: int = 0, patience: float = 120.0,
             embed: Union[None, str, Callable[[list[Any]], Any]] = None, batch: int = 256, query: Any = None, stored: Any = None,
             query_names: Any = None, **other: Any) -> Discovery:
    """False negatives, duplicates and components of embeddings, from all pairs.

    embeddings  [samples][dimensions]: NumPy array or memory map, torch tensor, anything with DLPack, a column of a table,
                or an iterable of such shards or of vectors; or files as the program reads them, a path or a list of paths: .npy, .safetensors,
                Parquet, .csv and .tsv, a folder of them, a pattern ("emb_{000..099}.npy", "a/*.parquet"); a .npz or a file of
                torch.save() with one matrix. float32, float16 and bfloat16 are read as they are; rows that are null, not finite
                or zero are left out: bad_rows
    column, id, label_column    of files and tables (pandas, polars, pyarrow, datasets of Hugging Face, a dictionary): the column of
                embeddings, of names, of labels; without them the only one that fits, and no labels. tensor: of .safetensors files
    embed       "pixels": 8 x 8 x 3 means of the pixels of images, as the program compares folder:DIR (needs Pillow); or a function that makes embeddings [samples][dimensions] of a list of at most `batch` samples, on any device. `embeddings`
                are then PIL images, paths of images (opened as RGB), texts, or a table whose `column` has such. Images that
                cannot be read are bad rows
    alpha       fraction of the others above an anchor's threshold (0.01), or k: how many of them
    labels      [samples] classes, as numbers or names: adds precision, recall and label issues. Negative, "", nan or None: unknown
    names       [samples] texts for tables and files; None: the index of a table or column of pandas, if it has texts or a title
    device      "cpu" or "cuda": the same result
    top         most similar others to list per anchor; max_pairs in all
    duplicates  similarity of duplicates, or "exact": only equal rows. "auto": 0.98, or more if the embeddings are so dense that
                natural neighbours have it (result: duplicate_limit)
    memory      bytes (the program's --memory counts GB) of lists of candidates; less takes a second pass. If the rows of files take
                more, they are streamed. None: half of the machine
    query       new embeddings in memory, and `stored`: the result of discover(embeddings), or its folder. Each new row gets its own
                threshold over all embeddings; neighbours, pairs and duplicates are rows of `embeddings`. alpha or k, and duplicates
                are those of `stored` unless given. query_names: names of the new rows
    out         folder of the result, written as by save(); format, replace, graph: as there
    resume      with files: the folder of finished blocks of the search, or True: `out`.partial. If the process dies, the same call
                continues. save() removes the folder. Rows are streamed, so that the search needs two to four times the products
    engine      "ray", with files: `workers` tasks of a Ray cluster (0: as many as it has processors) share the search in the
                folder of `resume`. Tasks may die; after `patience` seconds others take over. The same result
    keep        which of two duplicates is kept: "first", "central" (the one more similar to the others), "label" (the one with the most
                frequent label), or a number of each row: the larger. A row is removed only for a row that is kept
    splits      {name: (first, end)}: leaks between these rows; rows of an earlier split are kept rather than those of a later one
    outliers    rows to list in outliers(); sample: rows of a diverse subset
    negatives   most similar others of each row that are not above its threshold, at most 64
    center      subtract the mean of all rows first: for embeddings that all point in nearly one direction
    probe       label issues also by a linear classifier on the embeddings; pred_probs: by probabilities of your own (both as in decide())
    approx      compare a row only with those of this many nearest cells; only_duplicates: nothing else, in less than n² time
    progress    True: a bar by tqdm, where installed; or a function that is given the finished share, and may return False to stop
    """
    _refuse_others(other)
    if str(device) not in ("cpu", "cuda"):
        raise ArgumentError(f"device is {device!r}; expected 'cpu' or 'cuda'")
    device = str(device)
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise ArgumentError(f"progress is {progress!r}; expected True, or a function of the finished share")
    # 0 means the default in C; here it is what was asked for, and cannot be meant.
    alpha, k = None if alpha is None else _share(alpha), None if k is None else _number("k", k, 1)
    if isinstance(memory, (int, float)) and memory < 1_000_000:
        raise ArgumentError(f"memory is {memory!r}; expected bytes, 1000000 or more (the program's --memory counts GB)")
    memory = None if memory is None else _number("memory", memory, 1_000_000)
    top, max_pairs, threads = _number("top", top, 0, 1000000), _number("max_pairs", max_pairs, 1), _number("threads", threads, 0, 1024)
    similarity = _similarity(duplicates)
    if embed is not None:
        if isinstance(embed, str) and embed == "pixels":
            from ._raw import pixel_means as embed
        if not callable(embed):
            raise ArgumentError(f"embed is {embed!r}; expected a function of a list of samples")
        from ._raw import embedded
        x, files = embedded(embeddings, embed, column, _number("batch", batch, 1, 1 << 30), progress)
        if titles_of(embeddings) is not None:  # names and labels of its other columns
            table = table_of(embeddings, column, id, label_column) if id is not None or label_column is not None else None
            names = names if names is not None or table is None else table.names
            if label_column is not None and labels is None and table is not None:
                labels = table.labels if table.classes is None else [None if i is None or i < 0 else table.classes[i] for i in _plain(table.labels)]
            label_column = None
        embeddings, names, column, id = x, files if names is None else names, None, None
    paths = paths_of(embeddings)
    asked = {key: text for key, text in (("column", column), ("id", id), ("label", label_column), ("tensor", tensor)) if text is not None}
    if label_column is not None and labels is not None:
        raise ArgumentError("labels and label_column exclude each other")
    embeddings, names, labels, titles = _of_table(embeddings, paths, asked, names, labels)
    refuse_another_order("labels", embeddings, labels)
    refuse_another_order("names", embeddings, names)
    source: Any = rows_of(embeddings) if paths is None else Files(paths, **asked)
    if paths is not None:
        labels, names = (source.labels if labels is None else labels), (source.names if names is None else names)
    elif names is None:
        names = index_of(embeddings)
    label, classes = labels_of(labels, source.n)
    classes = titles or classes
    texts = names_of(names, source.n)
    if (query is None) != (stored is None):
        raise ArgumentError("query and stored go together")
    if query is not None:
        return _compare(source, query, stored, texts, query_names, watch_of=progress, place=(out, replace, format), asked={
            "device": _lib.CONSTANTS["GLOFND_DEVICE_" + device.upper()], "alpha": alpha or 0.0, "k": k or 0, "top": top or -1,
            "max_pairs": max_pairs, **similarity, "memory": memory or _half_of_memory(), "threads": threads, "center": int(bool(center))},
            path=paths is not None)
    if alpha is None and k is None and not only_duplicates:
        alpha = 0.01
    if device == "cuda":
        _load_blas()
    if engine not in (None, "ray"):
        raise ArgumentError(f"engine is {engine!r}; expected 'ray', or None: this process")
    parts, temporary = _parts(source if paths is not None else None, resume, out, memory, engine)
    search = {
        "device": _lib.CONSTANTS["GLOFND_DEVICE_" + device.upper()], "alpha": alpha or 0.0, "k": k or 0, "top": top or -1,
        "max_pairs": max_pairs, **similarity, "memory": memory or _half_of_memory(), "threads": threads,
        "negatives": _number("negatives", negatives, 0, 64), "approx": _number("approx", approx, 0, 65536),
        "only_duplicates": int(only_duplicates), "parts": parts, "patience": float(patience), "center": int(bool(center))}
    if out is not None:
        _check_place(out, replace, format)
    watch = _Watch(progress)
    handle = None
    try:
        if engine == "ray":
            from ._ray import compute_blocks
            compute_blocks(paths or [], asked, label, search, _number("workers", workers, 0, 65536), watch.tick)
        handle = run_search(source, label, search, watch)
    finally:
        if temporary:
            shutil.rmtree(parts, ignore_errors=True)
        watch.close(handle is not None)
    found = Discovery(handle, texts, source.dim, label, classes, "memory" if paths is None else source.source)
    given = keep if isinstance(keep, str) else np.asarray(keep)
    if splits or sample or rows or probe or pred_probs is not None or outliers != 1000 or not isinstance(given, str) or given != "first":
        found.decide(given, splits=splits, outliers=outliers, sample=sample, rows=rows, probe=probe, pred_probs=pred_probs)
    if out is not None:
        found.save(out, replace=replace, format=format, graph=graph)
    return found
