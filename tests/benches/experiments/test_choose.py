"""choose: files of several sets, and several of one."""

import json

from tests.benches.experiments.choice import METRICS
from tests.tools import main


def test_files_of_one_set_are_joined_and_a_later_one_counts(tmp_path, capsys):
    """What `experiment --out` writes, two experiments of the same set: arms of both are chosen among."""

    def file(name, study, **arms):
        found = [{"label": label, "roi": True, **dict.fromkeys(METRICS, value)} for label, value in arms.items()]
        (tmp_path / name).write_text(json.dumps({"study": study, "summary": found}))
        return str(tmp_path / name)

    files = [
        file("1", "eyes", a=0.5, b=0.6), file("2", "eyes", c=0.9, b=0.7),
        file("3", "lungs", a=0.4, b=0.5, c=0.8),
    ]  # fmt: skip
    assert main(["choose", *files]) == 0
    told = capsys.readouterr().out
    assert "| eyes | c | 0.900 (0.900) |" in told and "| lungs | c | 0.800 (0.800) |" in told
    assert main(["choose", *files, "--among", "b"]) == 0
    assert "| eyes | b | 0.700 (0.700) |" in capsys.readouterr().out
