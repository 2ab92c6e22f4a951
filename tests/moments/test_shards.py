"""Which shards of a collection a set holds: read, united, refused."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest

from gramian.errors import GramianError
from gramian.moments import HeldShards, MomentSet, MomentSetWriter, Shard, add_moments
from gramian.moments.shards import named, united
from tests.moments.sets import RECIPE, make_data, rewrite, write_set

RUN = "ab" * 32


@pytest.mark.parametrize(
    "text", ["", "2", "0/4", "5/4", "-1/4", "1/0", "a/b", "1/4/2", "1.0/4", "1/2000000"]
)
def test_a_shard_that_does_not_exist(text: str) -> None:
    with pytest.raises(GramianError, match="expected i/n with i from 1 to n"):
        Shard.parse(text)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_batch_is_in_one_shard(count: int) -> None:
    shards = [Shard.parse(f"{number}/{count}") for number in range(1, count + 1)]
    owners = [[str(s) for s in shards if s.has(batch)] for batch in range(20)]
    assert all(len(owner) == 1 for owner in owners)
    shares = [sum(s.has(batch) for batch in range(20)) for s in shards]
    assert max(shares) - min(shares) <= 1


def shards_of(*held: int, count: int = 3, run: str = RUN) -> HeldShards:
    return HeldShards(run, count, held)


@pytest.mark.parametrize("held", [(), (0, 1), (2, 1), (1, 1), (1, 2, 3), (2, 4)])
def test_numbers_that_no_set_can_hold(held: tuple[int, ...]) -> None:
    with pytest.raises(GramianError, match="expected some but not all of 1 to 3, rising"):
        shards_of(*held)


def test_the_sum_of_some_says_what_is_missing_and_of_all_is_whole() -> None:
    some = united([("a", shards_of(3)), ("b", shards_of(1))])
    assert some == shards_of(1, 3)
    assert some is not None
    assert some.missing == (2,)
    assert str(some) == "shards 1, 3 of 3"
    assert united([("ab", some), ("c", shards_of(2))]) is None
    for order in permutations((1, 2, 3)):
        assert united([(f"{i}", shards_of(i)) for i in order]) is None
    assert united([("a", None), ("b", None)]) is None
    assert named(range(1, 20)).endswith("12 and 7 more")


@pytest.mark.parametrize(
    "other, message",
    [
        (shards_of(2), "shard 2/3 is in both a and b; .* give every shard once"),
        (shards_of(1, 2), "shard 2/3 is in both a and b"),
        (shards_of(1, count=4), "shard 2 of 3 and b shard 1 of 4: .* dealt out in two ways"),
        (shards_of(1, run="cd" * 32), "a and b are shards of different collections"),
        (None, r"b is not one of them; add up all shards first \(missing there: shards 1, 3\)"),
    ],
)
def test_what_is_not_added(other: HeldShards | None, message: str) -> None:
    with pytest.raises(GramianError, match=message):
        united([("a", shards_of(2)), ("b", other)])


def write(path: Path, seed: int, held: HeldShards | None) -> Path:
    """A set of a few rows that says which shards it holds; all of them share one document."""
    part = write_set(None, make_data(seed, 20))
    writer = MomentSetWriter(path, RECIPE)
    for site in ("0.resid_pre", "1.resid_pre"):
        writer.put_site(site, "train", part.moments(site, "train"))
    writer.finish({"train": ["00" * 32, f"{seed:02x}" * 32]}, shards=held)
    return path


def test_shards_may_share_documents_but_no_others(tmp_path: Path) -> None:
    a, b, c = (write(tmp_path / f"{i}", i, shards_of(i)) for i in (1, 2, 3))
    some = add_moments([c, a], tmp_path / "some")
    assert MomentSet.open(tmp_path / "some").shards == some.shards == shards_of(1, 3)
    whole = add_moments([some, b], tmp_path / "whole")
    assert whole.shards is None
    assert whole.documents.count == whole.counts["train"]["documents"] == 4
    assert json.loads((tmp_path / "whole" / "index.json").read_bytes())["format"] == 1
    for overlap in (False, True):
        with pytest.raises(GramianError, match="is not one of them"):
            add_moments([whole, c], None, allow_overlap=overlap)
        with pytest.raises(GramianError, match="shard 3/3 is in both"):
            add_moments([c, some], None, allow_overlap=overlap)
    with pytest.raises(GramianError, match="1 of 6 documents are in more than one"):
        add_moments([whole, write(tmp_path / "other", 9, None)], None)


def test_the_index_states_shards_in_format_3_only(tmp_path: Path) -> None:
    path = write(tmp_path / "a", 1, shards_of(2))
    index = json.loads((path / "index.json").read_bytes())
    assert (index["format"], index["shards"]) == (3, {"run": RUN, "count": 3, "held": [2]})
    assert MomentSet.open(path).describe()["shards"] == index["shards"]
    for change, message in (
        ({"format": 1}, "written by format 1, but what it states is of format 3"),
        ({"shards": {"run": RUN, "count": 3, "held": [3, 2]}}, "expected some but not all"),
        ({"shards": {"run": RUN, "count": 3, "held": ["2"]}}, "expected a list of sizes"),
        ({"shards": {"run": RUN, "count": 2**50, "held": [2]}}, "at most 1,000,000 in all"),
        ({"shards": {"run": RUN, "count": 3}}, "'held' is missing"),
        ({"shards": {"run": RUN, "count": 3, "held": [2], "more": 1}}, "unknown key 'more'"),
    ):
        rewrite(path, lambda index, change=change: index.update(change))
        with pytest.raises(GramianError, match=message):
            MomentSet.open(path)
        rewrite(path, lambda old, index=index: old.update(index))
    assert MomentSet.open(path).shards == shards_of(2)
