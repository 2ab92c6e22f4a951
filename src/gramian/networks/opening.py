"""Which class of transformers opens a configuration."""

from __future__ import annotations

from typing import Any

from gramian.networks.families import family


def opener(config: Any) -> Any:
    """The ``AutoModel...`` class for a configuration.

    That of the family's table; without a table, a language model where the configuration was
    saved by one, a multimodal one likewise, and the bare encoder otherwise.
    """
    import transformers

    found = family(config)
    if found is not None:
        return getattr(transformers, found.auto)
    saved_by = getattr(config, "architectures", None) or ["ForCausalLM"]
    generates = any(
        name in str(saved_by[0]) for name in ("ForCausalLM", "LMHeadModel", "ForConditional")
    )
    for name in ("AutoModelForCausalLM", "AutoModelForImageTextToText"):
        auto: Any = getattr(transformers, name)
        if generates and type(config) in auto._model_mapping:
            return auto
    return transformers.AutoModel
