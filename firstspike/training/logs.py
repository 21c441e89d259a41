"""Where a run's numbers go: metrics.jsonl always, TensorBoard too where it is installed."""

import contextlib
from typing import Any

from firstspike.training.run import Run


class Logs:
    """Writes to a run folder, in the leading process only.

    Args:
        writes: whether this process is the one that writes.
        tensorboard: whether to write for TensorBoard, if it is installed.
        resumed_at: the step that the run continues from. What TensorBoard was told of later steps, which are
            done again after a kill, it then forgets.
    """

    def __init__(self, run: Run, writes: bool = True, tensorboard: bool = True, resumed_at: int = 0) -> None:
        self.run, self.writes = run, writes
        self._board = _open_board(run, resumed_at) if writes and tensorboard else None

    def log(self, kind: str, step: int, **values: Any) -> None:
        """Log a line of one kind (`epoch`, `layers`, `collapse`) after `step` training steps."""
        if not self.writes:
            return
        self.run.log(kind, step=step, **values)
        if self._board is None:
            return
        try:
            if kind == "epoch":
                _show_epoch(self._board, step, values)
            elif kind == "layers":
                _show_layers(self._board, step, values["layers"])
            elif kind == "collapse":
                self._board.add_text("collapse", values["sentence"], step)
            self._board.flush()
        except OSError:  # the JSON lines have it all: a picture of them is not worth the run
            self._board = None

    def close(self) -> None:
        if self._board is not None:
            with contextlib.suppress(OSError):
                self._board.close()
            self._board = None


def _open_board(run: Run, resumed_at: int) -> Any:
    """TensorBoard's writer, or None where it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    purge = resumed_at + 1 if resumed_at else None
    return SummaryWriter(str(run.folder / "tensorboard"), purge_step=purge)


def _show_epoch(board: Any, step: int, values: dict[str, Any]) -> None:
    """`train_accuracy` is shown as `train/accuracy`, and so on."""
    for name, value in values.items():
        if isinstance(value, int | float):
            group, _, rest = name.partition("_")
            tag = f"{group}/{rest}" if group in ("train", "validation") and rest else f"run/{name}"
            board.add_scalar(tag, value, step)


def _show_layers(board: Any, step: int, layers: dict[str, Any]) -> None:
    for name, layer in layers.items():
        board.add_scalar(f"gradient norm/{name}", layer["gradient"], step)
        if layer["fired"]:
            board.add_scalar(f"silent share/{name}", layer["silent"], step)
            _show_times(board, f"firing times/{name}", layer["fired"], step)


def _show_times(board: Any, tag: str, shares: tuple[float, ...], step: int) -> None:
    """A histogram with one bin a time step."""
    times = range(len(shares))
    board.add_histogram_raw(
        tag,
        min=0,
        max=len(shares) - 1,
        num=sum(shares),
        sum=sum(t * share for t, share in zip(times, shares, strict=True)),
        sum_squares=sum(t * t * share for t, share in zip(times, shares, strict=True)),
        bucket_limits=[t + 0.5 for t in times],
        bucket_counts=list(shares),
        global_step=step,
    )
