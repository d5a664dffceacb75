"""`python -m onward.cli`, where the `onward` script is not on the path."""

from onward.cli import main

main()
