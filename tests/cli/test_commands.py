"""Every command on a tiny model: documented JSON keys, tables, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import tiny

SMALL = ("--tokens", "3k", "--length", 32, "--batch-rows", 256)


@pytest.fixture
def moments(gramian, model, corpus, tmp_path):
    path = tmp_path / "m.moments"
    done = gramian("collect", model, "--data", corpus / "a.jsonl", *SMALL, "-o", path, "--json")
    assert done.code == 0, done.err
    return path


def test_collect_says_what_it_wrote(gramian, model, corpus, tmp_path):
    path = tmp_path / "m.moments"
    done = gramian("collect", model, "--data", corpus / "a.jsonl", *SMALL, "-o", path, "--json")
    assert set(done.json) == {"path", "sites", "pairs", "tokens", "seconds"}
    assert done.json["path"] == str(path)
    assert done.json["tokens"] == 3000
    assert done.json["pairs"] == 3 + 2 + 6
    again = gramian("collect", model, "--data", corpus / "a.jsonl", *SMALL, "-o", path)
    assert again.code == 2
    assert "exists" in again.err
    assert "--force" in again.err
    forced = gramian("collect", model, "--data", corpus / "a.jsonl", *SMALL, "-o", path, "--force")
    assert forced.code == 0
    assert "3,000 tokens" in forced.out


def test_dry_run_writes_nothing_and_reads_no_weights(gramian, model, tmp_path):
    done = gramian("collect", model, "--data", "none.txt", "--memory", "200k", "--dry-run")
    assert done.code == 0, done.err
    for word in ("passes", "memory", "disk", "minutes"):
        assert word in done.out
    document = gramian("collect", model, "--data", "none.txt", "--dry-run", "--json").json
    assert document["passes"] == 1
    assert document["mode"] == "stream"
    assert document["minutes"] > 0


def test_lens_json_has_the_documented_keys(gramian, model, corpus, moments):
    done = gramian(
        "lens",
        moments,
        "--model",
        model,
        "--eval",
        corpus / "b.jsonl",
        "--eval-tokens",
        400,
        "--length",
        32,
        "--json",
    )
    assert done.code == 0, done.err
    document = done.json
    assert {"model", "fit_tokens", "eval_tokens", "layers"} <= set(document)
    assert [layer["site"] for layer in document["layers"]] == [f"{i}.resid_pre" for i in range(3)]
    wanted = {
        "site",
        "r2_report",
        "agreement",
        "agreement_identity",
        "kl",
        "kl_identity",
        "surprisal",
        "linearity",
        "linearity_with_sinks",
        "linearity_no_residual",
    }
    for layer in document["layers"]:
        assert wanted <= set(layer)
        assert 0 <= layer["agreement"] <= 1
        assert layer["kl"] < layer["kl_identity"]
        assert 0 <= layer["linearity_no_residual"] <= layer["linearity"] <= 1
    assert 300 < document["eval_tokens"] < 400
    assert document["fit_tokens"] > 2000
    assert set(document["early_exit"]) >= {"agreement", "layers_saved"}


def test_lens_replaces_sub_modules(gramian, model, corpus, moments):
    command = ("lens", moments, "--model", model, "--replace")
    done = gramian(
        *command, "--eval", corpus / "b.jsonl", "--eval-tokens", 200, "--length", 32, "--json"
    )
    assert done.code == 0, done.err
    for layer in done.json["layers"]:
        for branch in ("attn", "mlp"):
            assert 0 <= layer[f"{branch}_agreement"] <= 1
            assert layer[f"{branch}_kl"] > 0
            assert layer[f"{branch}_kl_dropped"] > 0
    alone = gramian(*command)
    assert alone.code == 2
    assert "--eval" in alone.err


def test_lens_prints_tables_and_writes_a_page_and_casts(gramian, model, moments, tmp_path):
    from gramian.lens import load_casts

    done = gramian(
        "lens",
        moments,
        "--model",
        model,
        "--plot",
        tmp_path / "lens.html",
        "-o",
        tmp_path / "casts.safetensors",
    )
    assert done.code == 0, done.err
    assert "no residual" in done.out
    assert "2.resid_pre" in done.out
    page = (tmp_path / "lens.html").read_text()
    assert "plotly" in page
    assert "2.resid_pre" in page
    assert "<span>gramian</span> <span>lens</span>" in page
    assert len(load_casts(tmp_path / "casts.safetensors")) == 3
    again = gramian("lens", moments, "--model", model, "--plot", tmp_path / "lens.html")
    assert again.code == 2
    assert "exists" in again.err


def test_lens_reads_a_prompt(gramian, model, moments):
    done = gramian("lens", moments, "--model", model, "--prompt", "w1 w2 w3", "--top", 3)
    assert done.code == 0, done.err
    assert "identity" in done.out
    assert "final" in done.out
    document = gramian(
        "lens", moments, "--model", model, "--prompt", "w1 w2 w3", "--top", 3, "--json"
    ).json
    assert len(document["tokens"]) == 3
    assert len(document["cast"]) == len(document["identity"]) == 4 * 3
    assert all(len(guess["tokens"]) == 3 for guess in document["cast"])


def test_add_and_info(gramian, model, corpus, moments, tmp_path):
    other = tmp_path / "b.moments"
    gramian("collect", model, "--data", corpus / "b.jsonl", *SMALL, "-o", other)
    done = gramian("add", moments, other, "-o", tmp_path / "c.moments", "--json")
    assert done.code == 0, done.err
    assert done.json["tokens"] == 6000
    info = gramian("info", tmp_path / "c.moments")
    assert info.code == 0, info.err
    assert "verified" in info.out
    assert gramian("info", tmp_path / "c.moments", "--json").code == 0
    twice = gramian("add", moments, moments, "-o", tmp_path / "d.moments")
    assert twice.code == 2
    assert "document" in twice.err
    assert gramian("add", moments, "-o", tmp_path / "d.moments").code == 2


def test_evaluate_json_has_the_documented_keys(gramian, model, corpus, tmp_path):
    command = ("evaluate", model, "--data", corpus / "a.jsonl", "--length", 32, "--windows", 4)
    alone = gramian(*command, "--json")
    assert alone.code == 0, alone.err
    assert set(alone.json) == {"perplexity", "tokens", "parameters", "bytes"}
    assert alone.json["tokens"] == 4 * 31
    other = tiny.save(tmp_path / "other", seed=5)
    both = gramian(*command, "--against", other, "--json").json
    assert set(both) >= {
        "perplexity",
        "tokens",
        "parameters",
        "bytes",
        "agreement",
        "kl",
        "speed_ratio",
    }
    assert both["perplexity"] == pytest.approx(alone.json["perplexity"], rel=1e-6)
    assert both["kl"] > 0
    same = gramian(*command, "--against", model)
    assert "agreement 100.0%" in same.out


def test_methods_are_listed(gramian):
    done = gramian("methods", "--json")
    names = {method["name"] for method in done.json}
    assert {"mat", "ridge", "procrustes", "linearity", "effective_rank"} <= names
    assert all(method["paper"] for method in done.json)
    assert "2303.09435" in gramian("methods").out


def test_the_page_of_methods_is_the_registry(gramian):
    page = (Path(__file__).parents[2] / "docs" / "methods.md").read_text()
    assert gramian("methods", "--markdown").out in page


@pytest.mark.parametrize("command", ["collect", "lens", "add", "info", "evaluate", "methods"])
def test_help_has_an_example(gramian, command):
    done = gramian(command, "--help")
    assert done.code == 0
    assert "Example" in done.out
    assert f"gramian {command}" in done.out


@pytest.mark.parametrize(
    "arguments,expected",
    [
        (("collect", "nowhere/at/all", "--data", "x.txt", "-o", "m"), "no model at"),
        (("collect", "bundled:gpt5", "--data", "x.txt", "-o", "m"), "no bundled model"),
        (("collect", "{model}", "--data", "missing.txt", "-o", "m"), "no such file"),
        (("collect", "{model}", "--data", "{corpus}/a.jsonl"), "-o"),
        (("collect", "{model}", "--data", "{corpus}/a.jsonl", "--for", "magic", "-o", "m"), "lens"),
        (
            ("collect", "{model}", "--data", "{corpus}/a.jsonl", "--tokens", "many", "-o", "m"),
            "32k",
        ),
        (
            (
                "collect",
                "{model}",
                "--data",
                "{corpus}/a.jsonl",
                "--memory",
                "1k",
                "-o",
                "m",
                "--length",
                "32",
            ),
            "least budget",
        ),
        (
            ("collect", "{model}", "--data", "{corpus}/a.jsonl", "--length", "4096", "-o", "m"),
            "64 positions",
        ),
        (
            (
                "collect",
                "{model}",
                "--data",
                "{corpus}/a.jsonl",
                "--rows",
                "5",
                "--no-rows",
                "-o",
                "m",
            ),
            "contradict",
        ),
        (
            ("collect", "{model}", "--data", "{corpus}/a.jsonl", "--device", "warp", "-o", "m"),
            "device",
        ),
        (("lens", "nothing.moments", "--model", "{model}"), "nothing.moments"),
        (("info", "{corpus}"), "not a moments folder"),
        (("evaluate", "{model}", "--data", "{corpus}/a.jsonl", "--length", "1"), "length"),
        (("evaluate", "{model}", "--data", "{corpus}/a.jsonl", "--dtype", "int3"), "float32"),
    ],
)
def test_bad_input_is_one_clear_line(
    gramian, model, corpus, tmp_path, monkeypatch, arguments, expected
):
    monkeypatch.chdir(tmp_path)
    done = gramian(*(str(a).format(model=model, corpus=corpus) for a in arguments))
    assert done.code == 2
    assert expected in done.err
    assert "Traceback" not in done.err
    assert list(tmp_path.glob("m*")) == []


def test_binary_and_empty_text(gramian, model, tmp_path):
    (tmp_path / "binary.txt").write_bytes(b"text\0\xff\xfe" * 50)
    (tmp_path / "empty.txt").write_text("")
    for name in ("binary.txt", "empty.txt"):
        done = gramian("collect", model, "--data", tmp_path / name, *SMALL, "-o", tmp_path / "m")
        assert done.code == 2
        assert name in done.err


def test_moments_of_another_model(gramian, moments, tmp_path):
    other = tiny.save(tmp_path / "other", seed=3)
    done = gramian("lens", moments, "--model", other)
    assert done.code == 2
    assert "collect them on this model" in done.err


def test_a_damaged_model(gramian, corpus, tmp_path):
    folder = tiny.save(tmp_path / "cut")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    done = gramian("evaluate", folder, "--data", corpus / "a.jsonl", "--length", 32)
    assert done.code == 2
    assert "cannot open the model" in done.err


def test_an_encoder_has_no_perplexity(gramian, corpus, tmp_path):
    from transformers import BertConfig, BertForMaskedLM

    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    BertForMaskedLM(BertConfig(vocab_size=97, **shape)).save_pretrained(tmp_path / "bert")
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    tiny.tokenizer().save_pretrained(tmp_path / "bert")
    assert isinstance(AutoTokenizer.from_pretrained(tmp_path / "bert"), PreTrainedTokenizerFast)
    done = gramian("evaluate", tmp_path / "bert", "--data", corpus / "a.jsonl", "--length", 32)
    assert done.code == 2
    assert "no language-model head" in done.err


def test_dry_runs_refuse_what_the_run_would(gramian, model):
    for wrong in (("--tokens", 0), ("--length", 1), ("--shares", "1,2"), ("--batch-rows", 0)):
        done = gramian("collect", model, "--data", "a.txt", "--dry-run", *wrong)
        assert done.code == 2, wrong


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--mode", "fast"), "--mode fast: expected one of auto, stream"),
        (("--storage", "int8"), "storage is 'int8', expected one of float64, float32"),
        (("--memory", "lots"), "4GB"),
        ((), "no place to write"),
    ],
)
def test_options_are_refused_before_the_model_is_opened(gramian, options, message):
    done = gramian("collect", "bundled:no-such-model", "--data", "a.txt", *options)
    assert done.code == 2
    assert message in done.err


def test_a_place_that_holds_no_moments(gramian, tmp_path):
    (tmp_path / "text.moments").write_text("no folder")
    assert "is a file, not a moments folder" in gramian("info", tmp_path / "text.moments").err
    assert "is not there" in gramian("info", tmp_path / "nowhere.moments").err


def test_shares_of_the_folds(gramian, model, corpus, tmp_path):
    done = gramian(
        "collect",
        model,
        "--data",
        corpus / "a.jsonl",
        *SMALL,
        "-o",
        tmp_path / "m",
        "--shares",
        "0.5,0.25,0.25",
    )
    assert done.code == 0, done.err
    from gramian.moments import MomentSet

    counts = MomentSet.open(tmp_path / "m").counts
    assert [counts[fold]["tokens"] for fold in counts] == [1500, 750, 750]


def test_damaged_moments(gramian, moments):
    part = next(moments.glob("site*.safetensors"))
    data = bytearray(part.read_bytes())
    data[-5] ^= 1
    part.write_bytes(bytes(data))
    done = gramian("info", moments)
    assert done.code == 2
    assert part.name in done.err


def test_interrupts_stop_between_batches_and_are_taken_up(
    gramian, model, corpus, tmp_path, monkeypatch
):
    """A real SIGINT during a batch: the batch ends, the state is saved, the command goes on."""
    import importlib
    import os
    import signal

    module = importlib.import_module("gramian.networks.fold_sums")
    real = module.FoldSums.update
    batches: list[int] = []

    def interrupted(self, batch):
        batches.append(batch.tokens)
        if len(batches) == 4:
            os.kill(os.getpid(), signal.SIGINT)
        real(self, batch)

    monkeypatch.setattr(module.FoldSums, "update", interrupted)
    command = ("collect", model, "--data", corpus / "a.jsonl", *SMALL, "-o")
    stopped = gramian(*command, tmp_path / "m")
    assert stopped.code == 130
    assert "same command" in " ".join(stopped.err.split())
    assert (tmp_path / "m.partial").is_dir()
    assert len(batches) == 4
    assert gramian(*command, tmp_path / "m").code == 0
    assert not (tmp_path / "m.partial").exists()
    resumed = len(batches) - 4
    assert gramian(*command, tmp_path / "whole").code == 0
    assert len(batches) == 4 + resumed + (4 + resumed)
    for part in (tmp_path / "whole").iterdir():
        assert part.read_bytes() == (tmp_path / "m" / part.name).read_bytes()


def test_shards_of_a_collection_add_up(gramian, model, corpus, moments, tmp_path):
    command = ("collect", model, "--data", corpus / "a.jsonl", *SMALL)
    parts = [tmp_path / f"{i}.moments" for i in (1, 2, 3)]
    for i in (1, 3):
        done = gramian(*command, "--shard", f"{i}/3", "-o", parts[i - 1])
        assert done.code == 0, done.err
        assert f"holds shard {i} of 3; missing: " in done.out
    some = gramian("add", parts[0], parts[2], "-o", tmp_path / "some.moments")
    assert some.code == 0, some.err
    assert "holds shards 1, 3 of 3; missing: shard 2. Collect each with --shard 2/3" in some.out
    assert "missing: shard 2." in gramian("info", tmp_path / "some.moments").out
    twice = gramian("add", tmp_path / "some.moments", parts[0], "-o", tmp_path / "d.moments")
    assert twice.code == 2
    assert "shard 1/3 is in both" in twice.err
    mixed = gramian("add", parts[0], moments, "-o", tmp_path / "d.moments")
    assert mixed.code == 2
    assert "missing there: shards 2, 3" in mixed.err
    last = gramian(*command, "--shard", "2/3", "-o", parts[1], "--json").json
    assert last["shards"] == {"run": last["shards"]["run"], "count": 3, "held": [2]}
    whole = gramian("add", *parts, "-o", tmp_path / "whole.moments", "--json").json
    assert (whole["tokens"], whole["missing"]) == (3000, [])
    described = gramian("info", tmp_path / "whole.moments", "--json").json
    expected = gramian("info", moments, "--json").json
    assert described["shards"] is None
    assert described["counts"] == expected["counts"]
    assert described["documents"] == expected["documents"]


@pytest.mark.parametrize(
    "options, message",
    [
        (("--shard", "4/3"), "shard 4/3 does not exist"),
        (("--shard", "first"), "expected i/n"),
        (("--shard", "1/2", "--ray"), "contradict each other"),
        (("--workers", 2), "--workers 2 is an option of --ray"),
        (("--cpus", 2), "--cpus 2 is an option of --ray"),
    ],
)
def test_what_is_no_way_to_deal_out(gramian, model, corpus, tmp_path, options, message):
    data = ("--data", corpus / "a.jsonl", *SMALL)
    done = gramian("collect", model, *data, "-o", tmp_path / "x", *options)
    assert done.code == 2
    assert message in done.err


def test_two_networks_are_not_collected_on_ray(gramian, model, corpus, tmp_path):
    data = ("--data", corpus / "a.jsonl", "--for", "compare")
    done = gramian("collect", model, model, *data, "-o", tmp_path / "x", "--ray")
    assert done.code == 2
    assert "--shard i/n" in done.err
