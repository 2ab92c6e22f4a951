"""Names of places in a network, in the field's own words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gramian.errors import GramianError

KINDS = (
    "resid_pre",
    "resid_mid",
    "resid_post",
    "attn_in",
    "q",
    "k",
    "v",
    "z",
    "attn_out",
    "mlp_in",
    "mlp_mid",
    "mlp_out",
)
"""Sites of a layer. ``attn_in`` and ``mlp_in`` are what the matrices read (after the norm);
``z`` and ``mlp_mid`` are what the writing matrices read; ``attn_out`` and ``mlp_out`` are what
is added to the residual stream; ``q`` and ``k`` are before the rotary embedding."""

CROSS = ("xattn_in", "xq", "xk", "xv", "xz", "xattn_out", "resid_xmid")
"""Sites of a layer that also attends to another tower: as ``attn_in`` to ``attn_out``, then the
stream after that branch was added. ``xk`` and ``xv`` have a row for every position of the other
tower."""

GLOBAL = ("embed", "final")
"""``embed``: output of the token embedding (or of what a tower has in its place); ``final``:
input of the final norm, or the output of the last layer where there is none."""

BETWEEN = ("cosines", "distances")
"""Of the residual stream at every two depths: the cosine of its rows, and their squared distance.
A row has one number for every two depths; see :func:`gramian.networks.between.between`."""

# TransformerLens hook names, accepted as aliases.
_HOOKS = {
    "hook_resid_pre": "resid_pre",
    "hook_resid_mid": "resid_mid",
    "hook_resid_post": "resid_post",
    "hook_attn_out": "attn_out",
    "hook_mlp_out": "mlp_out",
    "attn.hook_q": "q",
    "attn.hook_k": "k",
    "attn.hook_v": "v",
    "attn.hook_z": "z",
    "mlp.hook_post": "mlp_mid",
}
_GLOBAL = re.compile(r"(?:([a-z]\w*)\.)?(embed|final|cosines|distances)")
_LAYER = re.compile(r"(?:([a-z]\w*)\.)?(\d{1,6})\.(\w+)")
_HOOK = re.compile(r"blocks\.(\d{1,6})\.([\w.]+)")


@dataclass(frozen=True)
class Site:
    """A parsed site name; ``layer`` is None for the global ones, ``tower`` empty if not given."""

    layer: int | None
    kind: str
    tower: str = ""


def parse(name: str) -> Site:
    """Read ``12.resid_pre``, ``vision.3.z``, ``final``, or ``blocks.12.hook_resid_pre``.

    Raises
    ------
    GramianError : the text is none of these.
    """
    if match := _GLOBAL.fullmatch(name):
        return Site(None, match[2], match[1] or "")
    if name == "hook_embed":
        return Site(None, "embed")
    if (match := _HOOK.fullmatch(name)) and match[2] in _HOOKS:
        return Site(int(match[1]), _HOOKS[match[2]])
    if (match := _LAYER.fullmatch(name)) and match[1] != "blocks":
        return Site(int(match[2]), match[3], match[1] or "")
    raise GramianError(
        f"unknown site {name!r}; expected one of {', '.join((*GLOBAL, *BETWEEN))}, "
        f"'<layer>.<site>' with site one of "
        f"{', '.join(KINDS)}, with '<tower>.' in front where a network has several, or a "
        "TransformerLens hook name such as 'blocks.0.hook_resid_pre'"
    )
