"""Hard negatives of queries among documents: glofnd.mine().

    found = glofnd.mine(queries, documents, positives, k=5, embed=model.encode)
    found.negatives, found.threshold           # [queries][k] documents; [queries]
    found.false_negatives()                    # documents above the threshold, apart
    found.to_dataset()                         # anchor, positive, negative: as sentence-transformers takes them
"""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Iterator, NamedTuple, Optional, Union

import numpy as np

from ._discover import _number, _share
from ._embeddings import matrix_of
from ._lib import ArgumentError, FileError, NumericError

__all__ = ["FalseNegatives", "Mined", "mine"]

_BLOCK = 1 << 24  # similarities at a time: 64 MB
_FORMATS = ("triplet", "n-tuple")


class FalseNegatives(NamedTuple):
    """Listed documents above the threshold of a query that are not its positives; an element per pair, most similar first."""

    query: np.ndarray
    document: np.ndarray
    similarity: np.ndarray
    threshold: np.ndarray


# ----- the most similar documents ---------------------------------------------------------------------------------------------


class _NumPy:
    """Products and selection by NumPy, where PyTorch is missing."""

    def __init__(self, documents: np.ndarray):
        self.documents = documents

    def best(self, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The `count` most similar documents of each query, in no order: similarities and documents."""
        kept_s = np.empty((len(queries), 0), np.float32)
        kept_i = np.empty((len(queries), 0), np.int64)
        step = max(count, _BLOCK // len(queries))
        for first in range(0, len(self.documents), step):
            s = queries @ self.documents[first:first + step].T
            i = np.broadcast_to(np.arange(first, first + s.shape[1]), s.shape)
            s, i = np.concatenate([kept_s, s], 1), np.concatenate([kept_i, i], 1)
            if s.shape[1] > count:
                place = np.argpartition(-s, count - 1, 1)[:, :count]
                s, i = np.take_along_axis(s, place, 1), np.take_along_axis(i, place, 1)
            kept_s, kept_i = s, i
        return kept_s, kept_i


class _Torch:
    """The same by PyTorch, on any device."""

    def __init__(self, documents: np.ndarray, device: str):
        import torch
        self.torch, self.device = torch, torch.device(device)
        self.documents = torch.from_numpy(documents).to(self.device)

    def best(self, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        torch = self.torch
        rounded = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = False  # exact products
        try:
            q = torch.from_numpy(queries).to(self.device)
            kept_s = torch.empty(len(q), 0, device=self.device)
            kept_i = torch.empty(len(q), 0, dtype=torch.int64, device=self.device)
            step = max(count, _BLOCK // len(q))
            for first in range(0, len(self.documents), step):
                s = q @ self.documents[first:first + step].T
                s, i = torch.topk(s, min(count, s.shape[1]), 1, sorted=False)
                s, i = torch.cat([kept_s, s], 1), torch.cat([kept_i, i + first], 1)
                if s.shape[1] > count:
                    s, place = torch.topk(s, count, 1, sorted=False)
                    i = i.gather(1, place)
                kept_s, kept_i = s, i
            return kept_s.cpu().numpy(), kept_i.cpu().numpy()
        finally:
            torch.backends.cuda.matmul.allow_tf32 = rounded


def _engine(documents: np.ndarray, device: str) -> Any:
    try:
        import torch
    except ImportError:
        if device != "cpu":
            raise ArgumentError(f"device is {device!r}, which needs PyTorch: pip install torch") from None
        return _NumPy(documents)
    if device != "cpu" and not torch.cuda.is_available():
        raise ArgumentError(f"device is {device!r}; PyTorch sees no GPU")
    return _Torch(documents, device)


# ----- arguments --------------------------------------------------------------------------------------------------------------


def _is_texts(x: Any) -> bool:
    return hasattr(x, "__getitem__") and hasattr(x, "__len__") and len(x) > 0 and isinstance(x[0], str)


def _unit(x: Any, what: str, embed: Any, batch: int) -> tuple[np.ndarray, Optional[list[str]]]:
    """Unit rows of float32, and the texts that they were made of."""
    texts = None
    if _is_texts(x):
        if embed is None:
            raise ArgumentError(f"{what} are texts; give embed=, a function that makes embeddings of a list of them, such as model.encode")
        texts = [str(text) for text in x]
        x = np.concatenate([matrix_of(embed(texts[i:i + batch])) for i in range(0, len(texts), batch)])
        if len(x) != len(texts):
            raise ArgumentError(f"embed made {len(x)} embeddings of {len(texts)} {what}")
    rows = np.array(matrix_of(x), np.float32)
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    wrong = np.flatnonzero(~(np.isfinite(length) & (length > 0)))
    if wrong.size:
        raise NumericError(f"{what}[{wrong[0]}] is not finite, or all zero")
    return (rows / length[:, None]).astype(np.float32), texts


def _pairs(positives: Any, queries: int, documents: int) -> np.ndarray:
    """[pairs][2] query, document: all different, sorted."""
    if hasattr(positives, "tocoo"):
        positives = positives.tocoo()
        pairs = np.stack([positives.row, positives.col], 1)
    else:
        if hasattr(positives, "detach"):
            positives = positives.detach().cpu().numpy()
        if isinstance(positives, dict):
            lists = [(int(q), d) for q, d in positives.items()]
        else:
            if len(positives) != queries:
                raise ArgumentError(f"positives are of {len(positives)} queries; there are {queries}")
            lists = list(enumerate(positives))
        try:
            flat = [(q, int(d)) for q, some in lists for d in (some if hasattr(some, "__iter__") else [some]) if int(d) >= 0]
        except (TypeError, ValueError):
            raise ArgumentError("positives: expected for each query the row of its document, or a list of rows") from None
        pairs = np.array(flat, np.int64).reshape(-1, 2)
    pairs = np.unique(pairs.astype(np.int64), axis=0)
    for column, n, name in ((0, queries, "query"), (1, documents, "document")):
        if pairs.size and not (0 <= pairs[:, column].min() and pairs[:, column].max() < n):
            raise ArgumentError(f"positives: {name} {pairs[:, column].max()}; there are 0 .. {n - 1}")
    return pairs


def _with_copies(pairs: np.ndarray, rows: np.ndarray, texts: Optional[list[str]], documents: int) -> np.ndarray:
    """Documents equal to a positive are positives, too: of the same text, or of the same embedding."""
    keys: Any = texts if texts is not None else np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1] * 4))).ravel().tolist()
    first: dict[Any, int] = {}
    group = np.array([first.setdefault(key, i) for i, key in enumerate(keys)], np.int64)
    if len(first) == documents:
        return pairs
    order = np.argsort(group, kind="stable")
    start = np.searchsorted(group[order], np.arange(documents + 1))
    wide = [(q, other) for q, d in pairs.tolist() for other in order[start[group[d]]:start[group[d] + 1]].tolist()]
    return np.unique(np.array(wide, np.int64).reshape(-1, 2), axis=0)


def _rank(alpha: float, others: np.ndarray) -> np.ndarray:
    """ceil(alpha m), at least 1, as in C: products that are whole but for rounding count as such."""
    return np.maximum(np.ceil(alpha * others * (1.0 - 1e-14)), 1).astype(np.int64)


# ----- result -----------------------------------------------------------------------------------------------------------------


class Mined:
    """What glofnd.mine() found. Arrays have a row per query.

    threshold   float32 [queries]   similarity of the document of rank ceil(alpha m) among its m documents that are no positives
    negatives   int64 [queries][k], similarity float32   most similar documents not above it, best first; -1 and nan: no more
    above       int64 [queries]     documents above the threshold, that are no positives
    positives   int64 [pairs][2]    query and document, with copies of documents
    given       int64 [pairs][2]    the pairs of the call
    """

    def __init__(self, threshold: np.ndarray, negatives: np.ndarray, similarity: np.ndarray, above: np.ndarray,
                 listed: FalseNegatives, positives: np.ndarray, given: np.ndarray, queries: Optional[list[str]],
                 documents: Optional[list[str]]):
        self.threshold, self.negatives, self.similarity, self.above = threshold, negatives, similarity, above
        self.positives, self.given = positives, given
        self._listed, self._queries, self._documents = listed, queries, documents

    def __repr__(self) -> str:
        return (f"Mined({len(self.threshold)} queries, {int((self.negatives >= 0).sum())} hard negatives, "
                f"{int(self.above.sum())} documents above the thresholds)")

    def false_negatives(self) -> FalseNegatives:
        """The most similar documents above each threshold: review them, or add them to the positives."""
        return self._listed

    def _texts(self, queries: Any, documents: Any) -> tuple[Any, Any]:
        queries = self._queries if queries is None else queries
        documents = self._documents if documents is None else documents
        if queries is None or documents is None:
            raise ArgumentError("queries and documents: give the texts; the search had embeddings only")
        return queries, documents

    def rows(self, queries: Any = None, documents: Any = None, format: str = "triplet") -> Iterator[dict[str, str]]:  # noqa: A002
        """Rows of a training set. "triplet": anchor, positive, negative; a row for each negative. "n-tuple": a row for each positive
        of a query with k negatives: negative_1 ... negative_k."""
        if format not in _FORMATS:
            raise ArgumentError(f"format is {format!r}; expected {', '.join(map(repr, _FORMATS))}")
        queries, documents = self._texts(queries, documents)
        for q, d in self.given.tolist():
            pair = {"anchor": queries[q], "positive": documents[d]}
            found = [documents[i] for i in self.negatives[q].tolist() if i >= 0]
            if format == "triplet":
                yield from ({**pair, "negative": text} for text in found)
            elif len(found) == self.negatives.shape[1]:
                yield {**pair, **{f"negative_{i + 1}": text for i, text in enumerate(found)}}

    def to_dataset(self, queries: Any = None, documents: Any = None, format: str = "triplet") -> Any:  # noqa: A002
        """rows() as a datasets.Dataset, for the trainer of sentence-transformers."""
        rows = list(self.rows(queries, documents, format))
        if not rows:
            raise ArgumentError("no query has enough negatives: give a smaller k")
        from datasets import Dataset
        return Dataset.from_dict({key: [row[key] for row in rows] for key in rows[0]})

    def save(self, folder: Union[str, os.PathLike], queries: Any = None, documents: Any = None, format: str = "triplet") -> None:  # noqa: A002
        """A new folder: negatives.npy, threshold.npy, false_negatives.tsv; with texts also train.jsonl, a line for each of rows()."""
        folder = os.fspath(folder)
        if os.path.exists(folder):
            raise FileError(f"{folder} exists; a result is written to a new folder")
        partial = folder.rstrip("/") + ".partial"
        os.makedirs(partial)
        np.save(os.path.join(partial, "negatives.npy"), self.negatives)
        np.save(os.path.join(partial, "threshold.npy"), self.threshold)
        with open(os.path.join(partial, "false_negatives.tsv"), "w", encoding="utf-8") as file:
            file.write("query\tdocument\tsimilarity\tthreshold\n")
            for query, document, similarity, threshold in zip(*(column.tolist() for column in self._listed)):
                file.write(f"{query}\t{document}\t{similarity:.6f}\t{threshold:.6f}\n")
        if (queries is not None or self._queries is not None) and (documents is not None or self._documents is not None):
            with open(os.path.join(partial, "train.jsonl"), "w", encoding="utf-8") as file:
                for row in self.rows(queries, documents, format):
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
        os.rename(partial, folder)


def mine(queries: Any, documents: Any, positives: Any, k: int = 5, *, alpha: float = 0.001, top: int = 20, device: str = "cpu",
         embed: Optional[Callable[[list[str]], Any]] = None, batch: int = 4096,
         progress: Optional[Callable[[float], Any]] = None) -> Mined:
    """Hard negatives of each query: the k most similar documents not above its own threshold. Documents above it, likely false
    negatives, are listed apart.

    queries     embeddings [queries][dimensions] in any form that discover() takes; or texts, with `embed`
    documents   the same
    positives   for each query the row of its document or a list of rows; a dictionary of these; or a sparse matrix [queries][documents].
                They are no negatives, nor are documents of the same text or embedding
    k           negatives of each query
    alpha       share of a query's other documents that is above its threshold
    top         most similar documents above the threshold to list, per query
    device      "cpu", or a device of PyTorch: "cuda"
    embed       a function that makes embeddings of a list of texts, such as model.encode; called with `batch` texts at a time
    progress    a function that is given the finished share

    All documents are compared with all queries, in float32. Memory: the embeddings and blocks of 64 MB.
    """
    k, top, batch = _number("k", k, 1), _number("top", top, 0), _number("batch", batch, 1)
    alpha = _share(alpha)
    q, query_texts = _unit(queries, "queries", embed, batch)
    d, document_texts = _unit(documents, "documents", embed, batch)
    if q.shape[1] != d.shape[1]:
        raise ArgumentError(f"queries have {q.shape[1]} dimensions, documents {d.shape[1]}")
    given = _pairs(positives, len(q), len(d))
    pairs = _with_copies(given, d, document_texts, len(d))
    owned = np.bincount(pairs[:, 0], minlength=len(q))
    rank = _rank(alpha, len(d) - owned)
    keys = pairs[:, 0] * len(d) + pairs[:, 1]  # sorted
    engine = _engine(d, device)
    threshold, above = np.full(len(q), np.nan, np.float32), np.zeros(len(q), np.int64)
    negatives, similarity = np.full((len(q), k), -1, np.int64), np.full((len(q), k), np.nan, np.float32)
    listed: list[tuple[np.ndarray, ...]] = []
    order = np.argsort(owned, kind="stable")  # queries with many positives come last, and need longer lists
    size = 1024
    for first in range(0, len(q), size):
        rows = order[first:first + size]
        count = min(len(d), int((rank[rows] + owned[rows]).max()) + k)
        s, i = engine.best(q[rows], count)
        place = np.lexsort((i, -s))  # most similar first, equal ones by document
        s, i = np.take_along_axis(s, place, 1), np.take_along_axis(i, place, 1)
        others = np.full(len(rows), count)
        if keys.size:
            key = rows[:, None] * len(d) + i
            at = np.minimum(np.searchsorted(keys, key), keys.size - 1)
            own = np.argsort(keys[at] == key, axis=1, kind="stable")  # positives go behind all others
            s, i, others = np.take_along_axis(s, own, 1), np.take_along_axis(i, own, 1), (keys[at] != key).sum(1)
        has = others > 0
        at_rank = np.take_along_axis(s, np.minimum(rank[rows] - 1, count - 1)[:, None], 1)
        high = (s > at_rank) & (np.arange(count) < others[:, None]) & has[:, None]
        threshold[rows[has]], above[rows] = at_rank[has, 0], high.sum(1)
        take = above[rows][:, None] + np.arange(k)
        there = take < others[:, None]
        take = np.minimum(take, count - 1)
        negatives[rows] = np.where(there, np.take_along_axis(i, take, 1), -1)
        similarity[rows] = np.where(there, np.take_along_axis(s, take, 1), np.nan)
        r, c = np.nonzero(high[:, :top])
        listed.append((rows[r], i[r, c], s[r, c], at_rank[r, 0]))
        if progress is not None:
            progress(min(1.0, (first + size) / len(q)))
    columns_of = [np.concatenate(parts) for parts in zip(*listed)]
    by_query = np.argsort(columns_of[0], kind="stable")
    return Mined(threshold, negatives, similarity, above, FalseNegatives(*(x[by_query] for x in columns_of)), pairs, given,
                 query_texts, document_texts)
