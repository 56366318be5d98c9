"""The python_source Lambda: reads Python source without executing it. See README.md."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from pxsource.guard import Guard  # noqa: E402

guard = Guard()


def handler(event, context):
    return guard.answer(event, lambda: context.get_remaining_time_in_millis() / 1000)


def main():
    """Requests as lines of JSON on standard input, replies as lines on standard output."""
    import json

    for line in sys.stdin.buffer:
        print(json.dumps(guard.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
