"""The package's one exception type."""


class FirstspikeError(Exception):
    """Something the user can put right. Its message says what was given, what was expected and what to do."""
