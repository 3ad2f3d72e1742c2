"""The checks of a run, one module for each family; `registry` names them all."""
