"""embed= of glofnd.discover(): images and texts become embeddings by a function of the caller, batch by batch."""

from __future__ import annotations

import os
import warnings
from typing import Any, Callable, Iterator, Optional

import numpy as np

from ._embeddings import is_dataset, matrix_of, titles_of
from ._lib import ArgumentError, CancelledError, UnsupportedError

_IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")


def _is_image_file(item: Any) -> bool:
    """A path object, or a text that names an image which is there; other texts are texts."""
    return isinstance(item, os.PathLike) or isinstance(item, str) and item.lower().endswith(_IMAGES) and os.path.exists(item)


def _opened(item: Any) -> Any:
    if not _is_image_file(item):
        return item
    try:
        from PIL import Image
    except ImportError:
        raise UnsupportedError("paths of images are opened by Pillow, which is not installed: pip install pillow") from None
    with Image.open(item) as image:
        return image.convert("RGB")


def pixel_means(images: list[Any]) -> np.ndarray:
    """[samples][192]: 8 x 8 x 3 means of the pixels of PIL images or arrays, less the mean of these 192 numbers."""
    try:
        from PIL import Image
    except ImportError:
        raise UnsupportedError("embed=\"pixels\" needs Pillow: pip install pillow") from None
    rows = np.empty((len(images), 192), np.float32)
    for row, image in zip(rows, images):
        if not hasattr(image, "resize") or not hasattr(image, "convert"):
            image = Image.fromarray(np.asarray(image))
        bands = image.convert("RGB").resize((8, 8), Image.Resampling.BOX)
        row[:] = np.asarray(bands, np.float32).ravel()
        row -= row.mean()
    return rows


def _items(x: Any, column: Optional[str]) -> Any:
    """A sequence of raw samples."""
    titles = titles_of(x)
    if titles is not None:
        if column is None or titles.count(column) != 1:
            raise ArgumentError(f"column is {column!r}; with embed and a table, name the column of images or texts: "
                                f"{', '.join(map(repr, titles[:8]))}")
        x = x.select_columns([column]).with_format(None)[column] if is_dataset(x) else x[column]
        return x.tolist() if hasattr(x, "tolist") else x.to_pylist() if hasattr(x, "to_pylist") else x
    if isinstance(x, (str, bytes, os.PathLike)) or not hasattr(x, "__iter__"):
        raise ArgumentError(f"embeddings are {x!r:.80}; with embed, pass a list of images, paths or texts, or a table and its column")
    return x if hasattr(x, "__len__") and hasattr(x, "__getitem__") else list(x)


def _batches(items: Any, size: int, told: Callable[[float], Any]) -> Iterator[tuple[int, list[Any], list[int]]]:
    """First position, samples, and their places in the batch: images that cannot be read are left out."""
    for first in range(0, len(items), size):
        samples, places = [], []
        for place in range(min(size, len(items) - first)):
            try:
                samples.append(_opened(items[first + place]))
                places.append(place)
            except OSError as failure:
                warnings.warn(f"sample {first + place} is left out: {failure}", stacklevel=4)
        yield first, samples, places
        if told(min(1.0, (first + size) / len(items))) is False:
            raise CancelledError("cancelled")


def embedded(x: Any, embed: Callable[[list[Any]], Any], column: Optional[str], size: int, progress: Any) -> tuple[np.ndarray, Optional[list[str]]]:
    """[samples][dimensions] float32, NaN for images that cannot be read; and the paths, if all samples are image files."""
    items = _items(x, column)
    if not len(items):
        raise ArgumentError("no embeddings: there are no samples")
    bar = None
    if progress is True:
        try:
            from tqdm.auto import tqdm
            bar = tqdm(total=100, desc="embed", unit="%", bar_format="{l_bar}{bar}| {elapsed}<{remaining}")
        except ImportError:
            pass

    def told(share: float) -> Any:
        if bar is not None:
            bar.update(100 * share - bar.n)
        return progress(share) if callable(progress) else None

    out: Optional[np.ndarray] = None
    try:
        for first, samples, places in _batches(items, size, told):
            if not samples:
                continue
            rows = matrix_of(embed(samples))
            if len(rows) != len(samples) or out is not None and rows.shape[1] != out.shape[1]:
                raise ArgumentError(f"embed() gave {rows.shape[0]} x {rows.shape[1]} numbers for {len(samples)} samples; expected a vector for "
                                    "each, of one length")
            if out is None:
                out = np.full((len(items), rows.shape[1]), np.nan, np.float32)
            out[first + np.asarray(places)] = rows
    finally:
        if bar is not None:
            bar.close()
    if out is None:
        raise ArgumentError(f"no embeddings: none of {len(items)} samples can be read")
    files = titles_of(x) is None and all(map(_is_image_file, items))
    return out, [os.fsdecode(item) for item in items] if files else None
