"""The README is true."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_ten_lines_run() -> None:
    for code in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL):
        exec(compile(code, "README.md", "exec"), {})


def test_every_file_it_links_to_exists() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"
