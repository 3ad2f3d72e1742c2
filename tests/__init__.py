"""One thread for linear algebra, here and in every process that a test starts; this runs before numpy is imported.

The matrices are small: further threads mostly wait, at full load, and several test processes would outnumber the cores.
"""

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
