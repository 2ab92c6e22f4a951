"""Other widths and silent blocks: exact where they should be, certified where not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gramian.errors import GramianError
from gramian.maps import Dense, Diagonal
from gramian.networks import CentreWriters, Insert, Plan, Resize, apply
from gramian.networks import open as open_checkpoint
from gramian.networks.certificate import outputs_of
from tests import tiny

WIDTH, INNER, HEADS, KEYS, DEPTH = 32, 48, 4, 2, 3
DENSE = (
    "llama",
    "olmo2",
    "qwen2",
    "gpt2",
    "opt",
    "gemma2",
    "qwen3",
    "phi3",
    "gemma3_text",
    "gpt_neox",
)
QUICK = {"llama", "qwen2", "gpt2", "opt", "gemma2"}
every = pytest.mark.parametrize(
    "family",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in DENSE],
)


def keys_of(source):
    tap = source.blueprint.layers[0].taps
    width = tap["z"].width // HEADS
    return tap["k"].width // width


def repeated(source, *, times=2, heads=True):
    """Everything there ``times`` times."""
    keys = keys_of(source)
    inner = source.blueprint.layers[0].taps["mlp_mid"].width
    group = HEADS // keys
    shared = tuple(range(keys)) * times
    queries = tuple(k * group + i for k in shared for i in range(group))
    return Resize(
        stream=tuple(range(WIDTH)) * times,
        neurons=(tuple(range(inner)) * times,) * DEPTH,
        queries=(queries,) * DEPTH if heads else (),
        keys=(shared,) * DEPTH if heads else (),
    )


def gap(written, source):
    expected = outputs_of(source.model, tiny.ids())
    return float(
        (outputs_of(written.model, tiny.ids()) - expected).abs().max() / expected.abs().max()
    )


@every
def test_everything_twice_computes_the_same(checkpoint, family, tmp_path):
    source = checkpoint(family)
    plan = Plan.of(source, repeated(source))
    plan.save(tmp_path / "plan")
    certificate = apply(source, Plan.load(tmp_path / "plan"), tmp_path / "out", tolerance=1e-5)
    assert certificate.change < 1e-5
    written = open_checkpoint(tmp_path / "out")
    assert gap(written, source) < 1e-5
    assert written.blueprint.width == 2 * WIDTH
    taps = written.blueprint.layers[0].taps
    assert taps["z"].width == 2 * source.blueprint.layers[0].taps["z"].width
    assert written.blueprint.tied == source.blueprint.tied


@every
def test_the_old_half_of_what_was_doubled_is_the_source(checkpoint, family, tmp_path):
    """Chosen back out of the copies, with the shares undone."""
    source = checkpoint(family)
    apply(source, Plan.of(source, repeated(source)), tmp_path / "big")
    big = open_checkpoint(tmp_path / "big")
    keys = keys_of(source)
    inner = source.blueprint.layers[0].taps["mlp_mid"].width
    places = [r.site for r in big.blueprint.stream_readers()]
    double = {place: WIDTH for place in places}
    for i in range(DEPTH):
        double[f"{i}.mlp_mid"] = inner
        if family != "olmo2":  # whose norms are over all heads
            double[f"{i}.z"] = source.blueprint.layers[0].taps["z"].width
    norms = {norm.name: 0.5**0.5 for norm in big.blueprint.stream_norms()}
    move = Resize(
        stream=tuple(range(WIDTH)),
        neurons=(tuple(range(inner)),) * DEPTH,
        queries=() if family == "olmo2" else (tuple(range(HEADS)),) * DEPTH,
        keys=() if family == "olmo2" else (tuple(range(keys)),) * DEPTH,
        gains=norms,
        scale=2**0.5,
        places=tuple(double),
        maps=tuple(Diagonal(torch.full((n,), 2.0, dtype=torch.float64)) for n in double.values()),
    )
    apply(big, Plan.of(big, move), tmp_path / "out")
    assert gap(open_checkpoint(tmp_path / "out"), source) < 1e-5


@every
def test_fewer_of_everything_is_certified(checkpoint, family, tmp_path):
    source = checkpoint(family)
    keys = keys_of(source)
    inner = source.blueprint.layers[0].taps["mlp_mid"].width
    group = HEADS // keys
    fewer = keys // 2
    whole = family == "olmo2"
    z = source.blueprint.layers[0].taps["z"].width // (1 if whole else 2)
    neurons = tuple(i for i in range(inner) if i % 3)
    rest = torch.randn(
        inner - len(neurons), len(neurons), generator=torch.Generator().manual_seed(0)
    )
    move = Resize(
        stream=tuple(range(0, WIDTH, 2)),
        neurons=(neurons,) * DEPTH,
        queries=() if whole else (tuple(range(group * fewer)),) * DEPTH,
        keys=() if whole else (tuple(range(fewer)),) * DEPTH,
        gains={"1.mlp": 0.7},
        scale=0.8,
        places=("0.mlp_mid", "1.attn_in", "2.z"),
        maps=(
            Dense(0.1 * rest.double()),
            Diagonal(torch.linspace(0.5, 1.5, WIDTH // 2, dtype=torch.float64)),
            Diagonal(torch.full((z,), 1.4)),
        ),
    )
    if whole:
        with pytest.raises(GramianError, match="over all heads"):
            Plan.of(source, replace(move, queries=((0, 1),) * DEPTH, keys=((0,),) * DEPTH))
    certificate = apply(source, Plan.of(source, move), tmp_path / "out", tolerance=2e-5)
    assert certificate.change > 1e-3
    assert open_checkpoint(tmp_path / "out").blueprint.width == WIDTH // 2


@every
def test_silent_blocks_leave_outputs_equal_to_the_bit(checkpoint, family, tmp_path):
    source = checkpoint(family)
    apply(source, Plan.of(source, Insert((0, 0, 2))), tmp_path / "out")
    written = open_checkpoint(tmp_path / "out")
    assert written.blueprint.depth == DEPTH + 3
    found = outputs_of(written.model, tiny.ids())
    assert torch.equal(found, outputs_of(source.model, tiny.ids()))


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt2"])
def test_zero_features(checkpoint, family, tmp_path):
    source = checkpoint(family)
    wider = (*range(WIDTH), *[-1] * 16)
    heads = (
        {}
        if family != "gpt2"
        else {"queries": ((0, 1, 2, 3, 0, 1),) * DEPTH, "keys": ((0, 1, 2, 3, 0, 1),) * DEPTH}
    )
    move = Resize(stream=wider, **heads)
    moves = [move]
    if family == "gpt2":
        with pytest.raises(GramianError, match="put CentreWriters"):
            Plan.of(source, move)
        moves = [CentreWriters(), move]
    apply(source, Plan.of(source, *moves), tmp_path / "out", tolerance=1e-5)
    written = open_checkpoint(tmp_path / "out")
    assert gap(written, source) < 1e-5
    # What reads the new features is not zero, so that they can learn.
    reader = written.blueprint.layers[0].readers[0].matrix
    weight = written.model.get_parameter(reader.weight)
    weight = weight.T if reader.inputs_first else weight
    assert weight[:, WIDTH:].abs().max() > 0
