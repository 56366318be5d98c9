"""Counts the sentences and words of a text, and keeps how many there were last time."""

import collections
import re

NAMESPACE = "text.analyses"


def main(input):
    arguments = input["arguments"]
    name = arguments.get("name", "last")
    sentences = [s.strip() for s in re.split(r"(?<=[.!?。])\s+", arguments["text"]) if s.strip()]
    words = re.findall(r"\w+", arguments["text"].casefold())
    counts = collections.Counter(words)
    # Equal counts in the order of the alphabet: the same text has the same result.
    frequent = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[: arguments.get("top", 5)]

    data = {
        "sentences": len(sentences),
        "words": len(words),
        "frequent": [{"word": word, "count": count} for word, count in frequent],
    }
    before = input["storage"][NAMESPACE].get(name)
    if before is not None:
        data["since"] = len(words) - before["value"]["words"]

    evidence = []
    for word, count in frequent:
        first = next(s for s in sentences if word in re.findall(r"\w+", s.casefold()))
        evidence.append({"word": word, "count": count, "sentence": first[:500]})

    return {
        "summary": f"문장 {len(sentences)}개, 낱말 {len(words)}개입니다.",
        "data": data,
        "evidence": evidence,
        "actions": [{
            "kind": "storage.put",
            "namespace": NAMESPACE,
            "key": name,
            "value": {"words": len(words), "sentences": len(sentences)},
        }],
    }
