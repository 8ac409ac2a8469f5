"""Only the text between the markers changes."""

import unittest

from eigenbench.document import (
    BENCH,
    PRECISION,
    DocumentError,
    markers,
    replaced,
)

BEGIN, END = markers(BENCH)


class Replacing(unittest.TestCase):
    def test_the_text_around_the_markers_stays(self) -> None:
        document = f"# Title\n{BEGIN}\nold\n{END}\nlast\n"
        self.assertEqual(
            replaced(document, "new\n"), f"# Title\n{BEGIN}\n\nnew\n\n{END}\nlast\n"
        )

    def test_replacing_twice_is_replacing_once(self) -> None:
        once = replaced(f"{BEGIN}{END}", "new")
        self.assertEqual(replaced(once, "new"), once)

    def test_a_part_leaves_the_other_one_alone(self) -> None:
        first, last = markers(PRECISION)
        document = f"{BEGIN}\nold\n{END}\n{first}{last}\n"
        self.assertEqual(
            replaced(document, "new", PRECISION),
            f"{BEGIN}\nold\n{END}\n{first}\n\nnew\n\n{last}\n",
        )

    def test_a_document_without_markers_is_refused(self) -> None:
        for document in "", BEGIN, END, f"{END}{BEGIN}":
            with self.subTest(document), self.assertRaises(DocumentError):
                replaced(document, "new")


if __name__ == "__main__":
    unittest.main()
