"""A worker of the measured workflows, in a process of its own."""

import sys

import uvloop
import work

from onward import Worker

uvloop.run(Worker([work.steps, work.sleeper], sys.argv[1]).run())
