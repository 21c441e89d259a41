"""The command line: parse, call, print."""

import os
import sys
from collections.abc import Sequence

from firstspike.errors import FirstspikeError


def main(args: Sequence[str] | None = None) -> None:
    """Run a command; a mistake of the user's is one sentence on stderr and exit status 2."""
    from tyro.extras import SubcommandApp

    from firstspike.cli import classify, data, evaluate, export, paper, train
    from firstspike.cli.flags import registry

    try:
        left, recipe = train.take_recipe(list(sys.argv[1:] if args is None else args))
        app = SubcommandApp()
        app.command(name="train")(train.train_command(recipe))
        app.command(train.resume)
        app.command(train.recipes)
        app.command(classify.classify)
        app.command(export.export)
        app.command(name="evaluate")(evaluate.evaluate_command)
        app.command(paper.app, name="paper", help="Make the paper's tables and figures.")
        app.command(data.app, name="data", help="List, get, verify and show data sets.")
        app.cli(
            prog="firstspike",
            description="Time-to-first-spike networks: train, measure, run.",
            args=left,
            registry=registry,
        )
    except FirstspikeError as error:
        rank = os.environ.get("RANK", "0")
        print(f"firstspike{'' if rank == '0' else f' (process {rank})'}: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # whoever read the output, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        print("firstspike: interrupted.", file=sys.stderr)
        sys.exit(130)
