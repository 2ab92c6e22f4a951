"""From moments to a plan with fewer blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

from gramian.compress.compression import Treated, compression
from gramian.compress.depth.choosing import cheapest
from gramian.compress.depth.cut import Cut, cuts_of
from gramian.compress.depth.directed import fit_cosine, fit_weighted
from gramian.compress.depth.fit import Fitted, fit, require_foldable
from gramian.compress.depth.folding import fold_layers
from gramian.compress.depth.needs import longest_cut, needs_of_cut
from gramian.compress.depth.scores import By, fitted_from, price, scores
from gramian.compress.depth.sink import touches, warnings_for
from gramian.data import Documents
from gramian.errors import GramianError
from gramian.moments import MomentSet
from gramian.networks import DropLayers, Move, Plan, Replace
from gramian.networks.checkpoint import Checkpoint
from gramian.registry import method as registered

Method = Literal["replace", "drop", "laco"]
Objective = Literal["ls", "weighted", "cosine"]
LOW = 0.7
"""Mean cosine of the last states under which blocks that were folded are warned of."""
LAST = 1e6
"""Added to the price of a cut that touches the writer of the attention sink: taken only where
there is no other."""


@registered("depth", job="compress", paper="2505.02819, 2403.17887, 2403.03853, 2402.11187")
def plan(
    checkpoint: Checkpoint,
    moments: MomentSet | None,
    *,
    remove: int | None = None,
    method: Method = "replace",
    cuts: int = 1,
    layers: Sequence[int] | None = None,
    by: By = "angular",
    objective: Objective = "ls",
    ridge: float | None = None,
    docs: Documents | None = None,
    **folding: Any,
) -> Plan:
    """Remove whole blocks; by default one linear map takes the place of every run of them.

    Nothing is trained, and the result is an ordinary checkpoint of the same architecture.

    Parameters
    ----------
    moments : collected with ``needs(checkpoint)``; ``laco`` reads none.
    remove : blocks to remove in all.
    method : ``replace``: a map folded into the MLP before each cut (ReplaceMe); ``drop``: nothing
        in their place (ShortGPT, UIDL); ``laco``: folded, weights alone, into the block below.
    cuts : runs of blocks at most, with a block between them. Maps of several are all fitted to
        the network as it was.
    layers : the blocks to remove, instead of ``remove``, ``cuts`` and ``by``.
    by : what the cheapest cut is: ``angular`` distance of the stream before and after it,
        block ``influence``, or ``residual``, the error that its map leaves. Cuts that take out
        the writer of the attention sink, or whose map would sit on its output, come last.
    objective : ``ls``; ``weighted``, rows by one over their squared length after the cut; or
        ``cosine``. The last two read raw rows (``reservoir=``, ``--rows``).
    ridge : towards the identity, over the median eigenvalue; None chooses it on ``select``.
    docs : for ``laco``: what merges are checked on. folding : ``span``, ``interval``,
        ``threshold`` and ``tokens`` of :func:`~gramian.compress.depth.folding.fold_layers`.

    Raises
    ------
    GramianError : more blocks than there are, moments of another model or without the cut, a
        network whose MLP output is no matrix's, arguments that do not go together.

    Examples
    --------
    >>> plan = gm.compress.depth.plan(base, m, remove=3)         # doctest: +SKIP
    >>> gm.apply(base, plan, out="smollm2-27")                   # doctest: +SKIP
    """
    _check(method, objective, remove, layers, ridge, docs, folding)
    if method == "laco":
        assert docs is not None
        assert remove is not None
        return _laco(checkpoint, docs, remove, folding)
    if moments is None:
        raise GramianError(f"method {method!r} needs moments; collect with --for depth")
    if method == "replace":
        require_foldable(checkpoint, 0)
    scored = scores(checkpoint, moments, fits=False)
    depth = checkpoint.blueprint.depth
    if layers is not None:
        chosen = cuts_of(tuple(layers), depth)
    else:
        assert remove is not None
        cost, writer = price(checkpoint, moments, scored, by), scored.sink_writer
        chosen = cheapest(
            depth,
            remove,
            cuts,
            lambda cut: cost(cut) + LAST * touches(writer, cut, fitted=method == "replace"),
            lambda cut: method == "drop" or fitted_from(checkpoint, moments, cut),
        )
    warnings = warnings_for(scored.sink_writer, chosen, fitted=method == "replace")
    fitted: list[Fitted] = []
    moves: list[Move] = []
    if method == "drop":
        gone = tuple(layer for cut in chosen for layer in cut.layers)
        moves = [DropLayers(gone)] if gone else []
    else:
        strengths = None if ridge is None else (ridge,)
        for cut in chosen:
            _require(checkpoint, moments, cut)
            fitted.append(_fit(checkpoint, moments, cut, objective, strengths))
        # From the top down, so that the numbers of the others stay as they are.
        moves = [Replace(one.cut.layers, one.map) for one in reversed(fitted)]
    errors = {layer: one.error_report for one in fitted for layer in one.cut.layers}
    if method == "drop":
        errors = {layer: 1.0 for cut in chosen for layer in cut.layers}
    return compression(
        checkpoint,
        moves,
        method=method,
        treated=[Treated(layer, 0.0, error) for layer, error in sorted(errors.items())],
        treated_parameters=block_parameters(checkpoint),
        rows=min((one.rows for one in fitted), default=None),
        width=checkpoint.blueprint.width if fitted else None,
        warnings=warnings,
        objective=objective if fitted else None,
        chosen_by="hand" if layers is not None else by,
        sink_writer=None if scored.sink_writer is None else scored.sink_writer.layer,
        cuts=[_cut_json(cut, scored.cosine(cut), fitted) for cut in chosen],
    )


def block_parameters(checkpoint: Checkpoint) -> int:
    """Numbers in the tensors of all blocks."""
    prefix = f"{checkpoint.blueprint.layers_path}."
    found = checkpoint.skeleton.named_parameters()
    return sum(tensor.numel() for name, tensor in found if name.startswith(prefix))


def _fit(
    checkpoint: Checkpoint,
    moments: MomentSet,
    cut: Cut,
    objective: Objective,
    strengths: Sequence[float] | None,
) -> Fitted:
    if objective == "cosine":
        return fit_cosine(checkpoint, moments, cut)
    if objective == "weighted":
        return fit_weighted(checkpoint, moments, cut, strengths=strengths)
    return fit(checkpoint, moments, cut, strengths=strengths)


def _require(checkpoint: Checkpoint, moments: MomentSet, cut: Cut) -> None:
    """Refuse a cut that no map can stand for, or that the moments lack."""
    if cut.start == 0:
        raise GramianError(
            "no block comes before block 0 to take a map; leave it in, or take method='drop'"
        )
    require_foldable(checkpoint, cut.start - 1)
    wanted = needs_of_cut(checkpoint, cut.start, cut.count)
    if cut.count > longest_cut(checkpoint):
        wanted.require(checkpoint, moments, f"depth:{cut.count}")
    wanted.require(checkpoint, moments, "depth")


def _cut_json(cut: Cut, cosine: float, fitted: Sequence[Fitted]) -> dict[str, Any]:
    found: dict[str, Any] = {"layers": list(cut.layers), "cosine": cosine}
    for one in fitted:
        if one.cut == cut:
            found |= {
                "map": one.site,
                "ridge": one.relative,
                "error_train": one.error_train,
                "error_report": one.error_report,
                "error_sinks": one.error_sinks,
            }
    return found


def _laco(checkpoint: Checkpoint, docs: Documents, remove: int, folding: dict[str, Any]) -> Plan:
    found = fold_layers(checkpoint, docs, remove, **folding)
    warnings = []
    if found.cosine < LOW:
        warnings.append(
            f"the last states keep a mean cosine of only {found.cosine:.2f} with those of the "
            "source: expect a broken network; remove fewer blocks or take method='replace'"
        )
    return compression(
        checkpoint,
        found.moves,
        method="laco",
        treated=[Treated(layer, 0.0, None) for layer in found.layers],
        treated_parameters=block_parameters(checkpoint),
        warnings=warnings,
        threshold=found.threshold,
        cosine=found.cosine,
    )


def _check(
    method: str,
    objective: str,
    remove: int | None,
    layers: Sequence[int] | None,
    ridge: float | None,
    docs: Documents | None,
    folding: dict[str, Any],
) -> None:
    if method not in get_args(Method):
        raise GramianError(f"method is {method!r}, expected one of {', '.join(get_args(Method))}")
    if objective not in get_args(Objective):
        known = ", ".join(get_args(Objective))
        raise GramianError(f"objective is {objective!r}, expected one of {known}")
    if (remove is None) == (layers is None):
        raise GramianError("give either remove, how many blocks are to go, or layers, which ones")
    if objective != "ls" and method != "replace":
        raise GramianError(f"objective {objective!r} is of method 'replace', not of {method!r}")
    if ridge is not None and (method != "replace" or objective == "cosine"):
        raise GramianError("a ridge goes with method 'replace' and objective 'ls' or 'weighted'")
    if method == "laco":
        if remove is None:
            raise GramianError("method 'laco' chooses the blocks itself; give remove, not layers")
        if docs is None:
            raise GramianError("method 'laco' checks merges on a few documents; give docs (--data)")
    elif folding:
        raise GramianError(f"{', '.join(folding)}: only of method 'laco'")
