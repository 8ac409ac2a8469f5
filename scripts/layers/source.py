"""Rust source, as far as the checks need it: tokens without comments, strings and tests."""

import re

# In the order in which they are tried. A lifetime is not a character literal, which ends with a quote.
TOKEN = re.compile(
    r"""
    (?P<comment>//[^\n]*)
  | (?P<open>/\*)
  | (?P<string>[bc]?r(?P<hashes>\#*)"[\s\S]*?"(?P=hashes) | [bc]?"(?:[^"\\]|\\[\s\S])*")
  | (?P<char>b?'(?:[^'\\\n]|\\(?:[^u]|u\{[^}]*\}|x..))')
  | (?P<lifetime>'\w+)
  | (?P<word>[^\W\d]\w*)
  | (?P<number>\d[\w.]*)
  | (?P<path>::)
  | (?P<space>\s+)
  | (?P<other>.)
    """,
    re.VERBOSE,
)


def tokens(source):
    """The tokens of `source` as (kind, text, line), without comments and white space."""
    found, at, line = [], 0, 1
    while at < len(source):
        match = TOKEN.match(source, at)
        kind, text = match.lastgroup, match.group()
        if kind == "hashes":
            kind = "string"
        if kind == "open":
            text = _comment(source, at)
        elif kind not in ("comment", "space"):
            found.append((kind, text, line))
        at += len(text)
        line += text.count("\n")
    return found


def _comment(source, at):
    """The block comment that begins there; comments nest."""
    depth, end = 0, at
    while True:
        match = re.compile(r"/\*|\*/").search(source, end)
        if match is None:
            return source[at:]
        depth += 1 if match.group() == "/*" else -1
        end = match.end()
        if depth == 0:
            return source[at:end]


def without_tests(found):
    """`tokens` without the items under `#[cfg(test)]` and the like, and the names of those that are
    modules in separate files."""
    kept, modules, at = [], set(), 0
    while at < len(found):
        end = _attribute(found, at)
        if end is None or not _is_of_tests(found[at:end]):
            kept.append(found[at])
            at += 1
            continue
        at = end
        while (end := _attribute(found, at)) is not None:
            at = end
        end = _item(found, at)
        words = [text for kind, text, _ in found[at:end] if kind == "word"]
        if "mod" in words and found[end - 1][1] == ";":
            modules.add(words[words.index("mod") + 1])
        at = end
    return kept, modules


def _attribute(found, at):
    """The end of the attribute that begins there."""
    if [text for _, text, _ in found[at : at + 2]] != ["#", "["]:
        return None
    return _closing(found, at + 1)


def _is_of_tests(attribute):
    words = [text for kind, text, _ in attribute if kind == "word"]
    return words == ["test"] or (
        words[0] == "cfg" and "test" in words and "not" not in words
    )


def _item(found, at):
    """The end of the item that begins there: at a semicolon, or with its braces."""
    while at < len(found):
        text = found[at][1]
        if text == ";":
            return at + 1
        if text in "([{":
            at = _closing(found, at)
            if text == "{" and not (at < len(found) and found[at][1] == ";"):
                return at
            continue
        at += 1
    return at


def _closing(found, at):
    """The position after the bracket that closes the one there."""
    depth = 0
    for here in range(at, len(found)):
        text = found[here][1]
        if text in ("(", "[", "{"):
            depth += 1
        elif text in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                return here + 1
    return len(found)
