"""A Postgres of one's own: started by the first process that needs it, stopped by the last.

    lease = acquire()          # starts the server of the nearest `.onward` folder, or joins it
    connect(lease.url)
    lease.release()

Three lock files carry the whole argument, because the kernel drops a flock when its holder dies,
however it dies; nothing here trusts a process id alone.

    start.lock    exclusive while somebody starts, joins, leaves or stops; held for moments
    users.lock    shared by every process with a lease; who can take it exclusively is alone
    server.lock   exclusive, inherited by the postmaster and so by every process of that server

The last one out stops the server: it holds start.lock, so nobody can join meanwhile, and it gets
users.lock exclusively, so nobody is left. A server whose users were all killed runs on, and the next
to come joins it and stops it when leaving. A killed postmaster leaves backends behind for a moment;
they hold server.lock until the last of them is gone, and only then is a new one started. The same
lock holds between containers that share the folder but cannot see each other's processes.

Rooms: `accounts` (who runs Postgres), `binaries` (which Postgres), `places` (where files lie),
`locks`, `cluster` (initdb), `postmaster` (what a running server says of itself), `channels` (how it
is reached), `server` (start, join, stop), `leases` (who uses it).
"""

from __future__ import annotations

from onward.embedded.binaries import binaries
from onward.embedded.leases import Lease, acquire, remove
from onward.embedded.places import locate

__all__ = ["Lease", "acquire", "binaries", "locate", "remove"]
