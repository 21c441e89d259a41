"""The command line: parse, call, print."""

import sys
from collections.abc import Sequence

from firstspike.errors import FirstspikeError


def main(args: Sequence[str] | None = None) -> None:
    """Run a command; a mistake of the user's is one sentence on stderr and exit status 2."""
    from tyro.extras import SubcommandApp

    from firstspike.cli import data, train

    try:
        left, recipe = train.take_recipe(list(sys.argv[1:] if args is None else args))
        app = SubcommandApp()
        app.command(train.train_command(recipe), name="train")
        app.command(train.resume)
        app.command(train.recipes)
        app.command(data.app, name="data")
        app.cli(prog="firstspike", description="Time-to-first-spike networks: train, measure, run.", args=left)
    except FirstspikeError as error:
        print(f"firstspike: {error}", file=sys.stderr)
        sys.exit(2)
