"""`python -m sparsecert`."""

from sparsecert.cli import main

main()
