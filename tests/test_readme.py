"""The README is true."""

import json
import re
import statistics
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_ten_lines_run() -> None:
    for code in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL):
        exec(compile(code, "README.md", "exec"), {})


def test_every_file_it_links_to_exists() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def test_its_accuracies_are_those_of_the_kept_runs() -> None:
    row = r"\| \*\*([\d.]+)\*\* \| ([\d.]+) \| `([\w-]+)` \| (\d) \|"
    rows = re.findall(row, (ROOT / "README.md").read_text())
    assert len(rows) == 9
    for strict, steps, recipe, seeds in rows:
        summaries = (ROOT / "results/runs").glob(f"{recipe}-seed*/summary.json")
        tests = [json.loads(path.read_text())["test"] for path in summaries]
        assert len(tests) == int(seeds)
        assert f"{statistics.mean(test['strict'] for test in tests):.2f}" == strict
        assert f"{statistics.mean(test['steps'] for test in tests):.2f}" == steps
