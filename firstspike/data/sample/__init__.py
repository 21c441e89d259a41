"""A class-balanced piece of Fashion-MNIST (MIT, see LICENSE beside this file) that needs no download."""
