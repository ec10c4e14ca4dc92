"""``[communication]`` of the settings as a screen may check it; ``loaders.collective_names`` owns it."""

from __future__ import annotations

from ...loaders.collective_names import BadPattern, checked

__all__ = ["BadPattern", "checked"]
