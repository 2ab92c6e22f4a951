"""Write a folder under a temporary name beside its target, and rename it when it is complete."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gramian.errors import GramianError, refuse_existing


@contextmanager
def staged_folder(target: Path, *, force: bool) -> Iterator[Path]:
    """A folder that becomes ``target`` if the block ends well and vanishes if it does not.

    Raises
    ------
    GramianError : ``target`` exists and ``force`` is false, or the disk is full.
    """
    refuse_existing(target, force=force)
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = target.with_name(f".{target.name}.writing-{os.getpid()}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
        if target.exists():
            old = target.with_name(f".{target.name}.old-{os.getpid()}")
            target.rename(old)
            folder.rename(target)
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        else:
            folder.rename(target)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            free = shutil.disk_usage(target.parent).free
            raise GramianError(
                f"no space left while writing {target} ({free:,} bytes free); nothing was "
                "changed, make room and run the command again"
            ) from error
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
