"""What the guard makes of a reading process that dies, hangs, or is at fault itself."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from pxsource import guard, literal, rules  # noqa: E402
from pxsource.read import PYTHON, Malformed, items  # noqa: E402

# A child whose reader does what the source says.
START = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from pxsource import child
child.SECONDS = 1
def read(item):
    what = item["source"]
    if what == "abort":
        os.abort()
    if what == "exit":
        os._exit(0)
    if what == "hang":
        time.sleep(60)
    if what == "spin":
        while True:
            pass
    if what == "memory":
        return bytearray(child.MEMORY)
    if what == "recursion":
        return read(item)
    if what == "noise":
        print("noise", flush=True)
    if what == "bug":
        raise KeyError("text of the source")
    if what == "large":
        bytearray(b"x") * (child.KEEP + (32 << 20))
    return {"findings": [], "function": None, "flow": None, "pid": os.getpid()}
child.read = read
child.main()
"""


def ask(source):
    return {"v": 1, "kind": "function", "source": source}


class GuardTest(unittest.TestCase):
    def setUp(self):
        self.start, guard._start = guard._start, START
        self.guard = guard.Guard(seconds=4.0)

    def tearDown(self):
        guard._start = self.start
        self.guard.end()

    def pid(self):
        return self.guard.answer(ask("good"))["pid"]

    def test_a_source_that_kills_the_process_gets_a_finding_and_the_next_a_fresh_process(self):
        for what in ("abort", "exit", "spin", "hang"):
            with self.subTest(what):
                before = self.pid()
                found = self.guard.answer(ask(what))["findings"]
                self.assertEqual([f["reason"] for f in found], ["too_complex"])
                self.assertNotEqual(self.pid(), before)

    def test_one_that_takes_its_memory_or_stack_gets_a_finding_too(self):
        for what in ("memory", "recursion"):
            with self.subTest(what):
                before = self.pid()
                found = self.guard.answer(ask(what))["findings"]
                self.assertEqual([f["reason"] for f in found], ["too_complex"])
                self.assertNotEqual(self.pid(), before)

    def test_one_that_left_much_memory_behind_is_answered_and_the_process_replaced(self):
        before = self.pid()
        self.assertEqual(self.guard.answer(ask("large"))["pid"], before)
        self.assertNotEqual(self.pid(), before)

    def test_what_is_printed_does_not_mix_with_the_replies(self):
        self.assertEqual(self.guard.answer(ask("noise"))["findings"], [])

    def test_a_mistake_of_ours_is_no_finding_about_the_source(self):
        with self.assertRaises(RuntimeError) as raised:
            self.guard.answer(ask("bug"))
        self.assertRegex(str(raised.exception), r"^KeyError at <string>:\d+$")
        self.assertTrue(self.pid())

    def test_a_process_that_died_between_two_sources_is_replaced(self):
        before = self.pid()
        self.guard.process.kill()
        self.guard.process.wait()
        self.assertNotEqual(self.pid(), before)

    def test_of_several_only_the_one_that_kills_is_found_wanting(self):
        request = {"v": 1, "items": [{"kind": "function", "source": s} for s in ("good", "abort", "good")]}
        out = self.guard.answer(request)
        self.assertEqual((out["v"], out["python"]), (1, PYTHON))
        self.assertEqual([len(i["findings"]) for i in out["items"]], [0, 1, 0])

    def test_without_time_for_another_source_there_is_no_answer(self):
        with self.assertRaises(TimeoutError):
            self.guard.answer(ask("good"), lambda: 1.0)


class RequestTest(unittest.TestCase):
    def test_requests_that_are_none(self):
        item = {"kind": "function", "source": ""}
        for request in (
            None,
            [],
            {},
            {"v": 1},
            {"v": 2, **item},
            {"v": True, **item},
            {"v": 1, **item, "more": 1},
            {"v": 1, "kind": "function"},
            {"v": 1, "kind": "function", "source": 1},
            {"v": 1, "kind": "module", "source": ""},
            {"v": 1, **item, "python": 3.13},
            {"v": 1, **item, "items": [item]},
            {"v": 1, "items": []},
            {"v": 1, "items": [item] * 65},
            {"v": 1, "items": [None]},
            {"v": 1, "items": [{**item, "more": 1}]},
            {"v": 1, "items": [{**item, "python": 3}]},
        ):
            with self.subTest(repr(request)[:80]), self.assertRaises(Malformed):
                items(request)
        self.assertEqual(len(items({"v": 1, "items": [item] * 64})[0]), 64)
        pinned, several = items({"v": 1, "python": "3.11", "items": [item, {**item, "python": "3.13"}]})
        self.assertTrue(several)
        self.assertEqual([i["python"] for i in pinned], ["3.11", "3.13"])


class ChildrenTest(unittest.TestCase):
    def test_no_node_is_overlooked(self):
        """children() is faster than ast's own walk, and must see as much."""
        import ast

        source = ""
        for module in (literal, rules):
            with open(module.__file__, encoding="utf-8") as f:
                source += f.read()
        source += "match x:\n case {'a': b, **c} | C(1, d=2): pass\nasync def f(a, /, b: int = 1, *c, d=2, **e) -> int:\n"
        source += " async with a as b: pass\n global g\n return [x async for x in f'{a!r:{b}}'], lambda *a: (yield)\n"
        tree = ast.parse(source)
        skipped = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
        for node in ast.walk(tree):
            want = [n for n in ast.iter_child_nodes(node) if not isinstance(n, skipped)]
            have = [n for n in rules.children(node) if not isinstance(n, skipped)]
            self.assertEqual(have, want, type(node).__name__)


if __name__ == "__main__":
    unittest.main()
