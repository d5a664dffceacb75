"""The REST server: one more client of the same store. It holds no state, so any number may run side by side.

from onward.server import app

api.mount("/onward", app(auth="tokens"))        # inside a Starlette or FastAPI of one's own
"""

from onward.server.application import App, app

__all__ = ["App", "app"]
