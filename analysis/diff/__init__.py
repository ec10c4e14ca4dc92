"""What changed between two runs, beyond chance, and why: the view ``diff`` and what the app and the gate ask of it.

``VIEW`` is the view; ``suspect`` what one row rests on; ``gate`` the rule of ``--fail-on regression``; ``pooled`` the
comparison of repeated runs. The steps are one file each, in the order they are taken: ``samples`` (cycles as
matrices), ``renamed`` (with ``launched``), ``collectives``, ``cycle_time``, ``device_work`` and ``exposure`` (does
anybody wait), ``shift``, ``deals`` and ``discoveries`` (how far, how sure), ``suspects``, ``resources``,
``explanation``, ``comparability``, ``sentences``.
"""

from .detail import suspect
from .gate import Gate, gate
from .pooled import pooled
from .view import VIEW

__all__ = ["VIEW", "Gate", "gate", "pooled", "suspect"]
