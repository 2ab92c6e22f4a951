"""Safetensors files written in one pass (hash, size, fsync, rename) and read with distrust."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments.fields import Fields, parse_json

DTYPES = {
    "F64": torch.float64,
    "I64": torch.int64,
    "F32": torch.float32,
    "I32": torch.int32,
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
HEADER_LIMIT = 1 << 26  # bytes; a header of declared tensors stays far below


@dataclass(frozen=True)
class TensorSpec:
    """The stored type and shape of one tensor."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor's numbers."""
        return math.prod(self.shape) * DTYPES[self.dtype].itemsize

    @classmethod
    def of(cls, tensor: Tensor) -> TensorSpec:
        """How a tensor will be stored."""
        if tensor.dtype not in _NAMES:
            raise GramianError(f"a tensor of {tensor.dtype} cannot be stored in a moments folder")
        return cls(_NAMES[tensor.dtype], tuple(tensor.shape))


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Write one safetensors file: complete under its name, or not there at all.

    Args:
        path: the final name; the bytes go to a name beside it first and are synced to disk.
        tensors: by name; copied to the CPU one at a time.
        metadata: texts kept in the header.

    Returns:
        Size in bytes and hexadecimal SHA-256 of the file.

    Raises:
        GramianError: the disk is full; the message says how many bytes were needed and where.
    """
    specs = {name: TensorSpec.of(tensor) for name, tensor in tensors.items()}
    # Wide types first, so that every tensor is aligned to its own item size.
    order = sorted(specs, key=lambda name: (-DTYPES[specs[name].dtype].itemsize, name))
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for name in order:
        end = offset + specs[name].nbytes
        header[name] = {
            "dtype": specs[name].dtype,
            "shape": list(specs[name].shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json_bytes(header)
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    with replacing(path, needed=8 + len(text) + offset) as file:
        for block in (len(text).to_bytes(8, "little"), text):
            digest.update(block)
            write_block(file, block)
        for name in order:
            flat = tensors[name].detach().to("cpu").contiguous().reshape(-1).view(torch.uint8)
            numbers = flat.numpy().data
            digest.update(numbers)
            write_block(file, numbers)
    return 8 + len(text) + offset, digest.hexdigest()


def write_bytes(path: Path, data: bytes) -> None:
    """Write a small file: complete under its name, or not there at all."""
    with replacing(path, needed=len(data)) as file:
        write_block(file, data)


def write_block(file: IO[bytes], block: bytes | memoryview) -> None:
    """The one place where bytes go to disk."""
    file.write(block)


@contextlib.contextmanager
def replacing(path: Path, needed: int) -> Iterator[IO[bytes]]:
    """A file open for writing that takes the place of ``path`` only once it is synced to disk."""
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = shutil.disk_usage(path.parent).free
            raise GramianError(
                f"no space left on the disk: {path} needs {needed} bytes and {path.parent} has "
                f"{free} bytes free; make room or choose another place"
            ) from error
        raise


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable (where the system can)."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def json_bytes(value: object) -> bytes:
    """Compact JSON text; refuses NaN and Infinity."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def file_sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_header(path: Path) -> tuple[dict[str, TensorSpec], dict[str, str]]:
    """The tensors that a safetensors file declares, and its texts; nothing else is read.

    The header must fit the file, and the tensors must fill the rest of it without gap or overlap,
    so no later read can allocate more than the file really holds.

    Raises:
        GramianError: the file is truncated or its header is not of this form.
    """
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, HEADER_LIMIT):
            raise GramianError(
                f"{path}: not a safetensors file, or truncated (its {size} bytes cannot hold a "
                f"header of {length} bytes)"
            )
        top = Fields(parse_json(file.read(length), str(path)), f"{path}: header")
    metadata: dict[str, str] = {}
    if "__metadata__" in top:
        texts = top.fields("__metadata__")
        metadata = {key: texts.text(key) for key in texts}
    specs, spans = {}, []
    for name in top:
        if name == "__metadata__":
            continue
        entry = top.fields(name)
        specs[name] = TensorSpec(entry.text("dtype", DTYPES), entry.sizes("shape"))
        span = entry.sizes("data_offsets")
        entry.close()
        if len(span) != 2 or span[1] - span[0] != specs[name].nbytes:
            raise GramianError(
                f"{path}: {name!r} declares {specs[name].nbytes} bytes at {list(span)}"
            )
        spans.append(span)
    end = 0
    for start, stop in sorted(spans):
        if start != end:
            raise GramianError(f"{path}: the tensors overlap or leave a gap at byte {end}")
        end = stop
    if 8 + length + end != size:
        raise GramianError(
            f"{path}: truncated or changed: its header declares {8 + length + end} bytes, "
            f"the file has {size}"
        )
    return specs, metadata
