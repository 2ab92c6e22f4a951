"""A Ray cluster to work on: one that is there, or one on this machine."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from gramian.errors import GramianError


def require_ray() -> Any:
    """The module ``ray``.

    Raises
    ------
    GramianError : it is not installed.
    """
    try:
        return import_module("ray")
    except ImportError:
        raise GramianError(
            "collecting on a cluster needs Ray, which is not installed; install it with: "
            'pip install "gramian[ray]", or collect shard by shard with --shard i/n'
        ) from None


@contextmanager
def cluster(ray: Any, address: str | None) -> Iterator[None]:
    """While open, this process is connected to a cluster; one that it was connected to stays so.

    Raises
    ------
    GramianError : nothing answers at the address.
    """
    if ray.is_initialized():
        yield
        return
    where = address or os.environ.get("RAY_ADDRESS") or "this machine"
    _check_answers(where)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster made here reports to nobody
    try:
        ray.init(
            address=address, include_dashboard=False, log_to_driver=False, logging_level="error"
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _no_cluster(where, str(error).splitlines()[0]) from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_answers(address: str) -> None:
    """Refuse at once an address at which nothing listens; Ray would try for minutes."""
    match = re.fullmatch(r"(?:ray://)?\[?([^\[\]/]+)\]?:([0-9]{1,5})", address)
    if not match:
        return
    try:
        socket.create_connection((match[1], int(match[2])), timeout=10.0).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, str(error)) from error


def _no_cluster(where: str, reason: str) -> GramianError:
    return GramianError(
        f"no Ray cluster at {where}: {reason}; start one with 'ray start --head', or leave the "
        "address (RAY_ADDRESS) out for one on this machine alone"
    )


def room_for(ray: Any, resources: Mapping[str, int]) -> int:
    """How many workers of ``num_cpus`` and ``num_gpus`` the whole cluster has room for at once.

    Raises
    ------
    GramianError : not for a single one.
    """
    there = {name: int(ray.cluster_resources().get(name, 0)) for name in ("CPU", "GPU")}
    asked = {"CPU": resources["num_cpus"], "GPU": resources["num_gpus"]}
    room = min(there[name] // n for name, n in asked.items() if n)
    if room < 1:
        raise GramianError(
            f"the Ray cluster has {there['CPU']} CPUs and {there['GPU']} GPUs, and one worker asks "
            f"for {asked['CPU']} and {asked['GPU']}; ask for fewer cpus, or start nodes that have "
            "them"
        )
    return room
