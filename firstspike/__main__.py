"""`python -m firstspike`, and what torchrun starts."""

from firstspike.cli import main

main()
