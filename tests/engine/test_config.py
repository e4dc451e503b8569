"""Options: what one declaration gives, from the check of a value to the reading of what earlier versions stored."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, fields

import pytest

from core.engine.backbones.config import EncoderConfig
from core.engine.config import CHANNELS, MOST_CHANNELS, BadConfig, Config, option, options
from core.engine.objectives.config import PretrainConfig
from core.engine.registry import DETECTORS

COUNTS = {  # integers of a detector that size no network
    "batch", "critic_steps", "epochs", "frozen", "k", "local_batch", "local_from", "local_window",
    "max_steps", "members", "neighbours", "patch", "patches", "pool", "reestimate", "searches", "seed", "side",
    "steps", "stride", "window",
}  # fmt: skip


@dataclass(frozen=True)
class Inner(Config):
    side: int = option(8, "Of a square.", low=1)


@dataclass(frozen=True)
class Sample(Config):
    count: int = option(3, "How many.", low=1, high=7, group="Numbers")
    rate: float = option(0.1, above=0)
    share: float = option(0.5, low=0, below=1)
    span: tuple[float, float] = option((0.1, 0.2), low=0, high=1, ascending=True)
    parts: tuple[float, ...] = option((1.0, 0.5), low=0, high=(1.0, 0.5), parts=("a", "b"))
    word: str = option("x", choices=("x", "y"), group="Words")
    words: str = option("x", choices=("x", "y", "z"), several=True, aliases={"most": ("x", "y")})
    level: float | None = option(None, low=0)
    inner: Inner = option(Inner, "A nested group.")


@pytest.mark.parametrize(
    "bad, sentence",
    [
        ({"count": 0}, "count must be within 1..7, not 0"),
        ({"count": 8}, "count must be within 1..7"),
        ({"rate": 0.0}, "rate must be above 0, not 0.0"),
        ({"rate": float("nan")}, "rate must be above 0"),
        ({"rate": float("inf")}, "rate must be above 0"),
        ({"share": 1.0}, "share must be at least 0 and below 1"),
        ({"span": (0.3, 0.2)}, "span must be a range .low, high. within 0..1"),
        ({"span": (0.3, 2.0)}, "span must be a range"),
        ({"parts": (1.0, 0.6)}, "parts must be within a 0..1, b 0..0.5"),
        ({"word": "q"}, "word must be one of x, y, not 'q'"),
        ({"words": "x+q"}, "words must be one of x, y, z, or several combined with '.', or most, not 'x.q'"),
        ({"level": -1.0}, "level must be at least 0"),
        ({"count": "many"}, "Sample.count must be of type int, not 'many'"),
        ({"inner": {"side": 0}}, "side must be at least 1"),
        ({"nothing": 1}, "Sample has no nothing; it has: count"),
    ],
)
def test_a_value_out_of_bounds_is_refused_with_a_sentence(bad, sentence):
    with pytest.raises(BadConfig, match=sentence):
        Sample.from_dict(bad)


def test_values_at_the_bounds_are_taken():
    config = Sample(count=7, share=0.0, span=(0.0, 1.0), parts=(1.0, 0.5), words="y+z", level=0.0)
    assert Sample.from_dict(config.to_dict()) == config
    assert Sample(words="most").words == "most" and options(Sample)["words"].chosen("most") == ["x", "y"]


def test_a_subclass_that_changes_a_default_inherits_the_declaration():
    @dataclass(frozen=True)
    class Faster(Sample):
        rate: float = 0.9
        more: int = 1

    assert Faster().rate == 0.9 and options(Faster)["rate"] == options(Sample)["rate"]
    assert options(Faster)["word"].group == options(Faster)["more"].group == "Words"
    with pytest.raises(BadConfig, match="rate"):
        Faster(rate=-1.0)


def test_every_option_of_a_pretraining_says_what_it_does():
    declared = options(PretrainConfig)
    assert list(declared) == [f.name for f in fields(PretrainConfig)]
    assert [name for name, o in declared.items() if not o.sentence] == []
    shown = {name: o for name, o in declared.items() if o.group}
    assert all(o.label for o in shown.values()) and len({o.group for o in shown.values()}) == 7


def test_declarations_are_read_without_torch():
    code = (
        "import sys; from core.engine.config import options; from core.engine.objectives.config import PretrainConfig;"
        "print(len(options(PretrainConfig)), sorted({'torch', 'numpy', 'cv2'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split(maxsplit=1) == [str(len(fields(PretrainConfig))), "[]\n"]


@pytest.mark.parametrize("name", [*DETECTORS.names(), "encoder"])
def test_no_settings_ask_for_a_network_that_fills_the_memory(name):
    """Whatever number sizes a network is bounded, so that settings of another installation allocate little."""
    config = EncoderConfig if name == "encoder" else DETECTORS.get(name).Config
    sizes = {field.name for field in fields(config) if field.type == "int"} - COUNTS
    assert sizes <= set(CHANNELS), "name it in CHANNELS, or among COUNTS if it sizes no network"
    for size in sizes:
        with pytest.raises(BadConfig, match=size):
            config.from_dict({size: MOST_CHANNELS + 1})
