"""A table as data: Markdown for people, JSON for programs."""

from dataclasses import dataclass, field
from typing import Any

Cell = str | float | int | None


class Slip(float):
    """A number of the paper's that something else in it contradicts: marked where people read it."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper's, tested, whichever way it falls."""

    sentence: str
    holds: bool
    evidence: str

    def line(self) -> str:
        return f"- {'Holds' if self.holds else '**Does not hold**'}: {self.sentence} {self.evidence}"


@dataclass(frozen=True)
class Table:
    """Headings, rows and what has to be said about them."""

    headings: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        lines = [self.headings, ("---",) * len(self.headings), *(tuple(map(text, row)) for row in self.rows)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def as_dict(self) -> dict[str, Any]:
        return {
            "rows": [dict(zip(self.headings, row, strict=True)) for row in self.rows],
            "notes": self.notes,
        }


@dataclass(frozen=True)
class Made:
    """What an entry makes: a table, a figure, or both, and the claims it tests."""

    table: Table | None = None
    figure: Any = None
    claims: tuple[Claim, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)
    """The numbers behind a figure."""


def text(value: Cell) -> str:
    """A cell as people read it: two decimals, large numbers in thousands."""
    match value:
        case None:
            return "-"
        case Slip():
            return f"{text(float(value))}{mark(value)}"
        case float() if abs(value) >= 1000:
            return f"{value:,.0f}"
        case float() if value and abs(value) < 0.01:
            return f"{value:.2g}"
        case float():
            return f"{value:.2f}"
        case int():
            return f"{value:,}"
    return value


def mark(value: Cell) -> str:
    """What is put behind a slip."""
    return " †" if isinstance(value, Slip) else ""
