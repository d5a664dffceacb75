"""How hypothesis searches here: for as long as it takes.

A law is not broken because the machine was busy for 200 ms. A profile loaded by a module that some tests import holds
or not depending on which of them are run; loaded here, it is the same for all.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("unhurried", settings(), deadline=None)
settings.load_profile("unhurried")
