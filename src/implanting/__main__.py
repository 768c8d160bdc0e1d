"""`python -m implanting`, and so `torchrun -m implanting`."""

import sys

from implanting.cli import main

sys.exit(main())
