"""The tables of docs/inference.md, from the file of inference_cpu.py: python3 benchmarks/_cpu_table.py FILE."""

import json
import sys
from pathlib import Path
from typing import Any

OURS = ("engine float32", "engine int8", "engine int8-all")


def table(network: dict[str, Any]) -> list[str]:
    """One network at one thread and batch 1: every contender, and how many times faster the engine is."""
    times = {row["name"]: row["us"] for row in network["rows"] if (row["threads"], row["batch"]) == (1, 1)}
    lines = [f"| {network['network']} | us | float32 | int8 | int8-all |", "|---|---|---|---|---|"]
    for name, us in times.items():
        gains = ["" if name in OURS else f"{us / times[ours]:.1f}x" for ours in OURS]
        lines.append(f"| {name} | {us:,.0f} | {' | '.join(gains)} |")
    return lines


def sentence(network: dict[str, Any]) -> str:
    """What the engine's answers are worth."""
    parts = [f"{network['network']} ({network['images']}, {network['mean_steps']} steps on average):"]
    for weights in ("int8", "int8-all"):
        found = network[weights]
        parts.append(
            f"{weights} gives the class of float32 in {found['classes']:.1f} % of {found['samples']:,}, right in "
            f"{found['accuracy']:.2f} % (float32: {found['other_accuracy']:.2f} %);"
        )
    exact = network["float32"]
    parts.append(
        f"in float32, {exact['differing']} of {exact['spike_times']:,} spike times differ from float64."
    )
    return " ".join(parts)


if __name__ == "__main__":
    for network in json.loads(Path(sys.argv[1]).read_text())["networks"]:
        print("\n".join(table(network)), "\n")
        if "int8" in network:
            print(sentence(network), "\n")
