"""A worker of the measured workflows, in a process of its own."""

import sys

import uvloop
import work

from onward import Worker

uvloop.run(Worker(work.steps, sys.argv[1], concurrency=1000).run())
